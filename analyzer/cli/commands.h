// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Every subcommand of gpumemshim: ONE(Peak) stands for MakePeakCommand(), which its *_command.cc defines, here or in
// planner/cli. Where help lists it, the command says itself (Command::place).
//
//   const int code = Dispatch(arguments, AllCommands(), &console);

#ifndef GPUMEM_ANALYZER_CLI_COMMANDS_H_
#define GPUMEM_ANALYZER_CLI_COMMANDS_H_

#include <memory>

#include "cli/command.h"

namespace gpumem {

// clang-format off
#define GPUMEM_COMMANDS(ONE) \
  ONE(At) \
  ONE(Attach) \
  ONE(Bisect) \
  ONE(Bundle) \
  ONE(Check) \
  ONE(Ctl) \
  ONE(Diff) \
  ONE(Doctor) \
  ONE(Explain) \
  ONE(Export) \
  ONE(Flame) \
  ONE(Forecast) \
  ONE(Fragmentation) \
  ONE(Html) \
  ONE(Import) \
  ONE(Info) \
  ONE(Leaks) \
  ONE(Live) \
  ONE(Mcp) \
  ONE(Model) \
  ONE(Modules) \
  ONE(Oom) \
  ONE(Peak) \
  ONE(Plan) \
  ONE(Plot) \
  ONE(Ranks) \
  ONE(Replay) \
  ONE(Report) \
  ONE(Run) \
  ONE(Serve) \
  ONE(Simulate) \
  ONE(Sizes) \
  ONE(Sql) \
  ONE(Stages) \
  ONE(Steps) \
  ONE(Sweep) \
  ONE(Table) \
  ONE(Timeline) \
  ONE(Tree)
// clang-format on

#define GPUMEM_COMMAND_MAKER(name) std::unique_ptr<Command> Make##name##Command();
GPUMEM_COMMANDS(GPUMEM_COMMAND_MAKER)
#undef GPUMEM_COMMAND_MAKER

// One of each, in the order of help.
CommandList AllCommands();

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_CLI_COMMANDS_H_
