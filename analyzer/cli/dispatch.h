// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// From the command line to a Command: finds it, parses its flags, prints help, answers usage errors with a
// hint, and makes exit codes of statuses.

#ifndef GPUMEM_ANALYZER_CLI_DISPATCH_H_
#define GPUMEM_ANALYZER_CLI_DISPATCH_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/console.h"
#include "cli/command.h"

namespace gpumem {

// `arguments` without the program's name. Returns the exit code.
int Dispatch(const std::vector<std::string>& arguments, const CommandList& commands, Console* console);

// The candidate that a mistyped `word` most likely means, "" where none is near.
std::string Nearest(absl::string_view word, const std::vector<std::string>& candidates);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_CLI_DISPATCH_H_
