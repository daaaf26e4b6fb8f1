// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// RunIsolated: work on files that are not trusted, in a process of its own: a copy of this one by fork, with limits on
// memory (half of the machine's) and CPU time (two minutes). What crashes, hangs or eats memory there is a status
// here. The copy sees this process's memory as it was, and gives back nothing but its answer. Not for work that needs
// other threads.
//
//   absl::StatusOr<std::string> answer = RunIsolated([&](const auto& report) { return Read(path, report); }, progress);

#ifndef GPUMEM_ANALYZER_SYMBOLS_ISOLATED_H_
#define GPUMEM_ANALYZER_SYMBOLS_ISOLATED_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace gpumem {

using ReportProgress = std::function<void(uint64_t done, uint64_t all)>;

// `progress` is called here with what `work` reports there. Unavailable where no process can be started; Aborted where
// it died, with a reason such as "the reader crashed (signal 11)".
absl::StatusOr<std::string> RunIsolated(const std::function<std::string(const ReportProgress& report)>& work,
                                        const ReportProgress& progress);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_SYMBOLS_ISOLATED_H_
