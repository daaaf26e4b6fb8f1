// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Starts a program of which a plan wants to know something: what it is given as environment, and a process group of its
// own whose output goes to a file.
//
//   const Variables variables = ProgramEnvironment(tools, run, injected_script);
//   absl::StatusOr<pid_t> pid = StartProgram({words, variables, run.folder + "/output"});
//
// Thread-safety: none. Failure: Unavailable where the system has no process or file.

#ifndef GPUMEM_PLANNER_LAUNCH_PROGRAM_H_
#define GPUMEM_PLANNER_LAUNCH_PROGRAM_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/launch/simulated_run.h"

namespace gpumem::plan {

// An empty value: the variable is to be absent.
using Variables = std::vector<std::pair<std::string, std::string>>;

// What describes a device to the simulated CUDA.
Variables DeviceVariables(const DeviceProfile& device);

// What the recorder, the simulated CUDA and `injected_script` (a file) are to know of this run.
Variables ProgramEnvironment(const SimulationTools& tools, const RunRequest& run, const std::string& injected_script);

// The same variables as far as they differ between two runs of one program: what a process that is there already, and
// has not used CUDA yet, needs to become such a run.
Variables RunVariables(const RunRequest& run, const std::string& injected_script);

// In front of `command`: what starts it on simulated CUDA; nothing for a GPU.
std::vector<std::string> ProgramWords(const SimulationTools& tools, bool on_gpu,
                                      const std::vector<std::string>& command);

struct ProgramStart {
  std::vector<std::string> words;
  Variables variables;
  std::string output;     // path of the file that standard output and error go to
  std::string input;      // path of the file that standard input comes from; "" = there is none
  int inherited = -1;     // a descriptor that stays open in the program; -1 = none
  std::string directory;  // where it runs; "" = here
};

// It dies with us. Its process group has its number.
absl::StatusOr<pid_t> StartProgram(const ProgramStart& start);

// CLOCK_MONOTONIC.
double MonotonicSeconds();

// Takes a command line of Python apart: what is the interpreter's, what it runs, and what the program gets.
//
//   ParsePythonCommand({"python3", "-u", "train.py", "--lr", "1"})
//   // interpreter {"python3", "-u"}, script "train.py", arguments {"--lr", "1"}
//
// Thread-safety: pure function.

struct PythonCommand {
  std::vector<std::string> interpreter;  // with its own options
  std::string script, module;            // one of them
  std::vector<std::string> arguments;
};

// None where it is not Python, or runs neither a script nor a module (-c, standard input).
std::optional<PythonCommand> ParsePythonCommand(const std::vector<std::string>& command);

// Size and time of what a command runs, its script or its program: one that was changed gives other answers. "" where
// there is no such file.
std::string ScriptState(const std::vector<std::string>& command);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_LAUNCH_PROGRAM_H_
