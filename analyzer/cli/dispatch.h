// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// From the command line to a Command: finds it, or the sections of a report that are named, prints help and answers
// usage errors with a hint.

#ifndef GPUMEM_ANALYZER_CLI_DISPATCH_H_
#define GPUMEM_ANALYZER_CLI_DISPATCH_H_

#include <string>
#include <vector>

#include "base/console.h"
#include "cli/command.h"

namespace gpumem {

// `arguments` without the program's name. Returns the exit code.
int Dispatch(const std::vector<std::string>& arguments, const CommandList& commands, Console* console);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_CLI_DISPATCH_H_
