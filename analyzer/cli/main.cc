// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <csignal>
#include <string>
#include <vector>

#include "base/console.h"
#include "cli/commands.h"
#include "cli/dispatch.h"

namespace {

// A file that becomes larger than the limit (ulimit -f) is an error of writing, and no death. By a function, since a
// signal that is ignored would be ignored in the programs that are started, too.
void SayFileTooLarge() {
  struct sigaction action {};
  if (sigaction(SIGXFSZ, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) return;
  action.sa_handler = [](int) {};
  sigaction(SIGXFSZ, &action, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  SayFileTooLarge();
  gpumem::Console console;
  return gpumem::Dispatch(std::vector<std::string>(argv + 1, argv + argc), gpumem::AllCommands(), &console);
}
