// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The commands that look at several runs or write them for others, for registry.cc. Apart from commands.h, which every
// command includes.

#ifndef GPUMEM_ANALYZER_CLI_RUN_COMMANDS_H_
#define GPUMEM_ANALYZER_CLI_RUN_COMMANDS_H_

#include <memory>

#include "cli/command.h"

namespace gpumem {

std::unique_ptr<Command> MakeCompareCommand();
std::unique_ptr<Command> MakeCheckCommand();
std::unique_ptr<Command> MakeExportCommand();

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_CLI_RUN_COMMANDS_H_
