// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Takes a command line of Python apart: what is the interpreter's, what it runs, and what the program gets.
//
//   ParsePythonCommand({"python3", "-u", "train.py", "--lr", "1"})
//   // interpreter {"python3", "-u"}, script "train.py", arguments {"--lr", "1"}
//
// Thread-safety: pure function.

#ifndef GPUMEM_PLANNER_LAUNCH_PYTHON_COMMAND_H_
#define GPUMEM_PLANNER_LAUNCH_PYTHON_COMMAND_H_

#include <optional>
#include <string>
#include <vector>

namespace gpumem::plan {

struct PythonCommand {
  std::vector<std::string> interpreter;  // with its own options
  std::string script, module;            // one of them
  std::vector<std::string> arguments;
};

// None where it is not Python, or runs neither a script nor a module (-c, standard input).
std::optional<PythonCommand> ParsePythonCommand(const std::vector<std::string>& command);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_LAUNCH_PYTHON_COMMAND_H_
