// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <string>
#include <vector>

#include "base/console.h"
#include "commands/dispatch.h"
#include "gpumem/all_commands.h"

int main(int argc, char** argv) {
  gpumem::Console console;
  return gpumem::Dispatch(std::vector<std::string>(argv + 1, argv + argc), gpumem::AllCommands(), &console);
}
