// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ReadRank: a loaded trace in, the summary of its rank out. Replays the trace twice (attribution/). Not thread-safe;
// fails where the trace cannot be read again.
//
//   GPUMEM_ASSIGN_OR_RETURN(const RankSummary rank, ReadRank(loaded.get()));

#ifndef GPUMEM_ANALYZER_ANSWERS_RANKS_READ_RANK_H_
#define GPUMEM_ANALYZER_ANSWERS_RANKS_READ_RANK_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "answers/ranks/rank_summary.h"
#include "ledger/load/load_trace.h"

namespace gpumem {

absl::StatusOr<RankSummary> ReadRank(LoadedTrace* loaded);

// 3 of "run.r3.gmtrace", "snapshot_rank3.pickle", "rank-3.gmtrace"; -1 of others.
int RankOfName(absl::string_view file);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_RANKS_READ_RANK_H_
