// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Every subcommand of gpumemshim.
//
//   const int code = Dispatch(arguments, AllCommands(), &console);

#ifndef GPUMEM_ANALYZER_CLI_ALL_COMMANDS_H_
#define GPUMEM_ANALYZER_CLI_ALL_COMMANDS_H_

#include "cli/command.h"

namespace gpumem {

CommandList AllCommands();

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_CLI_ALL_COMMANDS_H_
