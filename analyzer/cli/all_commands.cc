// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "analyzer/cli/all_commands.h"

#include "cli/commands.h"
#include "cli/look/what_if.h"
#include "planner/cli/commands.h"
#include "planner/cli/replay_what_if.h"

namespace gpumem {

CommandList AllCommands() {
  SetWhatIfAsker(plan::ReplayWhatIf);
  CommandList commands = TraceCommands();
  commands.push_back(plan::MakePlanCommand());
  commands.push_back(plan::MakePlotCommand());
  commands.push_back(plan::MakeReplayCommand());
  commands.push_back(plan::MakeSimulateCommand());
  commands.push_back(plan::MakeSweepCommand());
  return commands;
}

}  // namespace gpumem
