// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The import subcommand: traces from what others recorded. Pure.
//
//   commands.push_back(MakeImportCommand());

#ifndef GPUMEM_ANALYZER_CLI_FILES_IMPORT_COMMAND_H_
#define GPUMEM_ANALYZER_CLI_FILES_IMPORT_COMMAND_H_

#include <memory>

#include "cli/command.h"

namespace gpumem {

std::unique_ptr<Command> MakeImportCommand();

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_CLI_FILES_IMPORT_COMMAND_H_
