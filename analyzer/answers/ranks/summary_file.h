// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Summaries of ranks as files, so that a second `gpumemshim ranks` does not read the traces: one line of JSON a rank.
// The file of one trace is TRACE.summary, and says which size and time of change the trace had. Files put together by
// `cat` are a file of summaries. docs/commands/ranks.md.
//
//   GPUMEM_RETURN_IF_ERROR(WriteSummary(rank, StampOf(rank.file)));   // rank.file + ".summary"
//   if (const auto rank = FreshSummary("run.gmtrace")) rank->steps    // nothing where the trace changed since
//   GPUMEM_ASSIGN_OR_RETURN(const KeptSummaries kept, ReadSummaries("all.summary"));
//
// What is read is hostile until checked. Thread-safe.

#ifndef GPUMEM_ANALYZER_ANSWERS_RANKS_SUMMARY_FILE_H_
#define GPUMEM_ANALYZER_ANSWERS_RANKS_SUMMARY_FILE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "answers/ranks/rank_summary.h"

namespace gpumem {

inline constexpr absl::string_view kSummarySuffix = ".summary";

// Size and time of the last change of a trace, of a series of all its files; zeros where there is none.
struct FileStamp {
  uint64_t bytes = 0, changed_ns = 0;

  friend auto operator<=>(const FileStamp&, const FileStamp&) = default;
};
FileStamp StampOf(const std::string& path);

// One line, with its end.
std::string SummaryLine(const RankSummary& rank, const FileStamp& stamp);
// DataLoss, with what is wrong, where the line is none; `stamp` may be null.
absl::StatusOr<RankSummary> ParseSummary(absl::string_view line, FileStamp* stamp);

// Where the summary of a trace, or of a series' file, is: "run.gmtrace.summary" of run.part2.gmtrace, too.
std::string SummaryPathOf(const std::string& trace);

// `stamp`: of the trace before it was read; it may have grown since.
absl::Status WriteSummary(const RankSummary& rank, const FileStamp& stamp);
// Of a rank that keeps no trace: together with what the file has of the same process (merge_summaries.h). Where it has
// another process's, the name gets a number; the name that it got.
absl::StatusOr<std::string> AddToSummary(RankSummary rank, const std::string& path);
std::optional<RankSummary> FreshSummary(const std::string& trace);

struct KeptSummaries {
  struct BadLine {
    size_t number = 0;  // from 1
    std::string problem;
  };
  std::vector<RankSummary> ranks;
  std::vector<BadLine> bad;  // that are no summaries, and are left out
};
// NotFound, also for what is not a plain file; ResourceExhausted for a line that is larger than 128 MiB.
absl::StatusOr<KeptSummaries> ReadSummaries(const std::string& path);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_RANKS_SUMMARY_FILE_H_
