// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// SortIntoJob: which traces are the ranks of one job, and which are not: of another job, of a rank's earlier attempt or
// child, without a rank. The job is the one that most traces are of. Pure function; the order of the traces has no
// influence.
//
//   Job job = SortIntoJob(std::move(summaries));
//   job.ranks[0].rank, job.missing

#ifndef GPUMEM_ANALYZER_ANSWERS_RANKS_JOB_H_
#define GPUMEM_ANALYZER_ANSWERS_RANKS_JOB_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "answers/ranks/rank_summary.h"

namespace gpumem {

// A trace that is not compared.
struct OtherTrace {
  enum class Why : uint8_t {
    kUnreadable,
    kOtherJob,        // another job id, program or world size
    kEarlierAttempt,  // of a rank with a later trace
    kSameProcess,     // a further file of a series, or what the process was before an exec
    kChild,           // of the process that is the rank, with the same rank in its environment
    kNoRank,
  } why = Why::kUnreadable;
  std::string file;
  int rank = -1;
  std::string text;  // what is different, or why it cannot be read

  // Whether the answer lacks something because of it.
  bool matters() const { return why == Why::kUnreadable || why == Why::kOtherJob || why == Why::kNoRank; }
};
absl::string_view OtherTraceName(OtherTrace::Why why);  // "other_job"

struct Job {
  JobKey key;
  int expected = -1;               // ranks; -1 = not known
  std::vector<RankSummary> ranks;  // by rank, each once
  std::vector<int> missing;        // of the expected ones; where that is not known, below the highest
  std::vector<OtherTrace> others;  // by file
};

// Ranks that kept no trace.
std::vector<int> SummaryOnlyRanks(const Job& job);
std::vector<int> DamagedRanks(const Job& job);

Job SortIntoJob(std::vector<RankSummary> summaries);

// "rank 3", "ranks 0, 4 and 7", "ranks 1 to 6 and 9", "12 ranks (0 to 5, 8, 9, ...)" of ascending numbers.
std::string RanksText(const std::vector<int>& ranks);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_RANKS_JOB_H_
