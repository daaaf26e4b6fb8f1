// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "gpumem/all_commands.h"

#include "commands/commands.h"
#include "commands/what_if.h"
#include "planner/commands/commands.h"
#include "planner/commands/replay_what_if.h"

namespace gpumem {

CommandList AllCommands() {
  SetWhatIfAsker(plan::ReplayWhatIf);
  CommandList commands = TraceCommands();
  commands.push_back(plan::MakePlanCommand());
  commands.push_back(plan::MakePlotCommand());
  commands.push_back(plan::MakeReplayCommand());
  commands.push_back(plan::MakeSweepCommand());
  return commands;
}

}  // namespace gpumem
