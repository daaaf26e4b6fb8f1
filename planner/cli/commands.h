// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Makers of the subcommands that run programs on simulated CUDA.

#ifndef GPUMEM_PLANNER_CLI_COMMANDS_H_
#define GPUMEM_PLANNER_CLI_COMMANDS_H_

#include <memory>

#include "cli/command.h"

namespace gpumem::plan {

std::unique_ptr<Command> MakePlanCommand();
std::unique_ptr<Command> MakePlotCommand();
std::unique_ptr<Command> MakeReplayCommand();
std::unique_ptr<Command> MakeSimulateCommand();
std::unique_ptr<Command> MakeSweepCommand();

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_CLI_COMMANDS_H_
