// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// `gpumemshim doctor --cross-check -- COMMAND`: runs the command with the recorder and CUPTI side by side and compares
// what the two saw (docs/cross-check.md). With traces in place of a command: compares what they have.

#ifndef GPUMEM_ANALYZER_CLI_FILES_CROSS_CHECK_H_
#define GPUMEM_ANALYZER_CLI_FILES_CROSS_CHECK_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/command.h"

namespace gpumem {

// The exit code: kExitFine where every difference has a known cause, kExitCheckFailed where one has not, and
// kExitCannotRead where CUPTI recorded in no process. The traces stay where a difference has no known cause.
absl::StatusOr<int> CrossCheckCommand(const std::vector<std::string>& words, bool json, Console* console);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_CLI_FILES_CROSS_CHECK_H_
