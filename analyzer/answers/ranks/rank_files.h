// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// RankFiles: the traces that a user means by files, folders and patterns. A folder gives its traces, else its summaries
// (summary_file.h), else those of the folders in it (one a node, or a rank; of "iteration_10" and "iteration_20" the
// last), two levels down. What others recorded counts where there is no trace (find_traces.h). Thread-safe.
//
//   GPUMEM_ASSIGN_OR_RETURN(const std::vector<std::string> files, RankFiles({"runs/", "more/*.r?.gmtrace"}));
//
// NotFound where an argument gives none.

#ifndef GPUMEM_ANALYZER_ANSWERS_RANKS_RANK_FILES_H_
#define GPUMEM_ANALYZER_ANSWERS_RANKS_RANK_FILES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace gpumem {

// Each once, by name. "" means the working directory.
absl::StatusOr<std::vector<std::string>> RankFiles(const std::vector<std::string>& arguments);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_RANKS_RANK_FILES_H_
