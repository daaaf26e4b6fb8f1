// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The table `ranks` of `gpumemshim export parquet`: a row a rank of the job, those that are missing too, and a row a
// trace that is not a rank of it (of another job, unreadable, of an earlier attempt). Facts are those of `gpumemshim
// ranks`, from the same summaries; docs/engines.md says what each column is.
//
//   RankTable table(traces);
//   table.Add(summary);                                  // of one of the traces
//   table.AddUnreadable("r1.gmtrace", "no trace: ...");
//   GPUMEM_RETURN_IF_ERROR(table.Write("tables/ranks/ranks.parquet"));
//   table.Doubts()                                       // "rank 2 of 4 is missing"
//
// Not thread-safe. Of each rank some ten KB are kept.

#ifndef GPUMEM_ANALYZER_CLI_COMPARE_RANK_TABLE_H_
#define GPUMEM_ANALYZER_CLI_COMPARE_RANK_TABLE_H_

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "answers/ranks/job.h"
#include "query/database.h"
#include "query/schema.h"
#include "query/table_writer.h"

namespace gpumem {

const TableSchema& RanksTable();

class RankTable {
 public:
  // Files; the number of a trace is its place here.
  explicit RankTable(const std::vector<std::string>& traces);

  void Add(RankSummary rank) { summaries_.push_back(std::move(rank)); }
  void AddUnreadable(const std::string& trace, absl::string_view why);
  // Sorts what was added into one job and writes the table. Internal or Unavailable, with the reason.
  absl::Status Write(const std::string& path);
  // After Write: what the job lacks, in a phrase each, as `gpumemshim ranks` says it.
  std::vector<std::string> Doubts() const;

 private:
  absl::Status WriteRows(Database* database) const;
  void WriteRank(const RankSummary& rank, size_t part, TableWriter* writer) const;
  void WriteOther(const OtherTrace& other, TableWriter* writer) const;

  std::map<std::string, size_t> numbers_;  // by file
  std::vector<RankSummary> summaries_;
  std::vector<OtherTrace> unreadable_;
  Job job_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_CLI_COMPARE_RANK_TABLE_H_
