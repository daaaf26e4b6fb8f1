// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "cli/commands.h"

#include <algorithm>

#include "cli/look/what_if.h"
#include "planner/cli/replay_what_if.h"

namespace gpumem {

CommandList AllCommands() {
  SetWhatIfAsker(plan::ReplayWhatIf);
  CommandList commands;
#define GPUMEM_COMMAND(name) commands.push_back(Make##name##Command());
  GPUMEM_COMMANDS(GPUMEM_COMMAND)
#undef GPUMEM_COMMAND
  std::sort(commands.begin(), commands.end(), [](const auto& a, const auto& b) { return a->place() < b->place(); });
  return commands;
}

}  // namespace gpumem
