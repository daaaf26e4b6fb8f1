// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/launch/program.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/process.h"
#include "planner/launch/ranks.h"

namespace gpumem::plan {
namespace {

// Nothing for what is not known: simulated CUDA has a value of its own then.
std::string Known(uint64_t value) { return value == 0 ? "" : absl::StrCat(value); }
std::string Known(int value) { return Known(static_cast<uint64_t>(value)); }

void AddSimulation(const RunRequest& run, Variables* variables) {
  const Variables device = DeviceVariables(run.device);
  variables->insert(variables->end(), device.begin(), device.end());
  variables->emplace_back("SIMCUDA_DEVICES", absl::StrCat(run.device_count));
  variables->emplace_back("SIMCUDA_MAX_READS", run.most_reads == 0 ? "" : absl::StrCat(run.most_reads));
  // A run must not find what the one before it compiled: compiling takes memory, too.
  if (std::getenv("TORCHINDUCTOR_FORCE_DISABLE_CACHES") == nullptr)
    variables->emplace_back("TORCHINDUCTOR_FORCE_DISABLE_CACHES", "1");
  // Threads of OpenMP that wait must not take the processor from runs beside this one.
  if (std::getenv("OMP_WAIT_POLICY") == nullptr) variables->emplace_back("OMP_WAIT_POLICY", "passive");
}

// What is assumed of a device, which the simulation reads in each process anew.
void AddAssumptions(const RunRequest& run, Variables* variables) {
  const Variables assumed = {
      {"SIMCUDA_OVERCOMMIT", run.overcommit ? "1" : "0"},
      {"SIMCUDA_OTHERS_MB", run.others_mib == 0 ? "" : absl::StrCat(run.others_mib)},
      {"SIMCUDA_DATA_DEPENDENT", run.data_dependent},
      {"SIMCUDA_WORKSPACES", run.workspaces},
      {"SIMCUDA_EVENTS", run.late_events ? "late" : ""},
  };
  variables->insert(variables->end(), assumed.begin(), assumed.end());
}

std::string LingerText(RunRequest::Lingers lingers) {
  if (lingers == RunRequest::Lingers::kNo) return "";
  return lingers == RunRequest::Lingers::kYes ? "1" : "fits";
}

const char* OtherText(RunRequest::Values values) {
  switch (values) {
    case RunRequest::Values::kOther:
      return "flip";
    case RunRequest::Values::kAllTrue:
      return "true";
    case RunRequest::Values::kAllFalse:
      return "false";
    case RunRequest::Values::kLeftOut:
      return "skip";
    case RunRequest::Values::kComputed:
    case RunRequest::Values::kNone:
      return "";
  }
  return "";
}

// What values.py is to do; "": nothing.
std::string ValuesJson(const RunRequest& run) {
  if (run.on_gpu || run.values == RunRequest::Values::kNone) return "";
  return absl::StrCat("{\"other\": \"", OtherText(run.values), "\", \"at\": ", nlohmann::json(run.at).dump(),
                      ", \"draw\": ", run.draw, ", \"shares\": ", run.shares, ", \"routing\": \"", run.routing, "\"}");
}

// Behind a fork: only what is needed, then the program.
[[noreturn]] void Become(const std::vector<char*>& arguments, const ProgramStart& start, int output, int input) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // where we are killed there is nobody else to end it
  for (const int signal : {SIGHUP, SIGINT, SIGTERM, SIGQUIT}) std::signal(signal, SIG_DFL);
  for (const auto& [name, value] : start.variables) {
    if (value.empty()) {
      unsetenv(name.c_str());
    } else {
      setenv(name.c_str(), value.c_str(), 1);
    }
  }
  if (start.inherited >= 0) fcntl(start.inherited, F_SETFD, 0);
  if (!start.directory.empty() && chdir(start.directory.c_str()) != 0) _exit(127);
  dup2(input, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  execvp(arguments[0], arguments.data());
  _exit(127);
}

}  // namespace

double MonotonicSeconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

Variables DeviceVariables(const DeviceProfile& device) {
  return {
      {"SIMCUDA_NAME", device.full_name},
      {"SIMCUDA_MEM_MB", absl::StrCat(device.memory_mib)},
      {"SIMCUDA_CC", absl::StrCat(device.capability)},
      {"SIMCUDA_SMS", absl::StrCat(device.multiprocessors)},
      {"SIMCUDA_SMEM", Known(device.shared_memory)},
      {"SIMCUDA_L2", Known(device.l2_cache)},
      {"SIMCUDA_MEMORY_BUS", Known(device.memory_bus)},
      {"SIMCUDA_MEMORY_CLOCK", Known(1000 * device.memory_clock_mhz)},
      {"SIMCUDA_CLOCK", Known(1000 * device.clock_mhz)},
  };
}

Variables RunVariables(const RunRequest& run, const std::string& injected_script) {
  Variables variables = {
      {"GPUMEMSHIM_OUTPUT", absl::StrCat(run.folder, "/%n.%p.gmtrace")},
      {"GPUMEMSHIM_INJECTED_SCRIPT", injected_script},
      {"GPUMEMSHIM_RING_DIRECTORY", run.folder},
      {"GPUMEMSHIM_PLAN_FOLDER", run.folder},
      {"GPUMEMSHIM_PLAN_STEPS", run.steps},
      {"GPUMEMSHIM_PLAN_WHAT_IF", run.what_if},
      {"GPUMEMSHIM_PLAN_LINGER", LingerText(run.lingers)},
      {"GPUMEMSHIM_PLAN_VALUES", ValuesJson(run)},
      {"GPUMEMSHIM_PLAN_DEADLINE", absl::StrCat(MonotonicSeconds() + run.timeout_s)},
      {"SIMCUDA_NCCL_FOLDER", run.on_gpu ? "" : run.folder},
      {"SIMCUDA_SHARED", run.on_gpu ? "" : absl::StrCat(run.folder, "/devices")},  // its processes share them
  };
  if (!run.on_gpu) AddAssumptions(run, &variables);
  variables.insert(variables.end(), run.environment.begin(), run.environment.end());
  return variables;
}

Variables ProgramEnvironment(const SimulationTools& tools, const RunRequest& run, const std::string& injected_script) {
  const char* preloaded = std::getenv("LD_PRELOAD");
  const LoaderName recorder = NameForLoader(tools.recorder).value_or(LoaderName{tools.recorder, ""});
  const std::string preload =
      preloaded == nullptr || *preloaded == '\0' ? recorder.preload : absl::StrCat(recorder.preload, ":", preloaded);
  Variables variables = {
      {"LD_PRELOAD", preload},       {"GPUMEMSHIM_QUIET", "1"},
      {"GPUMEMSHIM_CONTROL", "0"},   {"GPUMEMSHIM_DISABLE", "0"},
      {"GPUMEMSHIM_START", "on"},    {"GPUMEMSHIM_RING_SIZE", "64M"},
      {"GPUMEMSHIM_SUMMARY", "off"}, {"GPUMEMSHIM_RANKS", ""},
      {"PYTHONFAULTHANDLER", ""},    {"GPUMEMSHIM_PLAN_PINS", run.pins},
  };
  if (!recorder.folder.empty())
    variables.emplace_back("LD_LIBRARY_PATH", LibraryPathWith(std::getenv("LD_LIBRARY_PATH"), recorder.folder));
  if (!run.on_gpu) AddSimulation(run, &variables);
  for (const Variables& more :
       {FakeRanksEnvironment(run, FakeRanksFolder(injected_script)), RunVariables(run, injected_script)})
    variables.insert(variables.end(), more.begin(), more.end());
  return variables;
}

std::vector<std::string> ProgramWords(const SimulationTools& tools, bool on_gpu,
                                      const std::vector<std::string>& command) {
  if (on_gpu) return command;
  std::vector<std::string> words = {"python3", tools.launcher, "--lib", tools.libraries, "--"};
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

absl::StatusOr<pid_t> StartProgram(const ProgramStart& start) {
  const int output = open(start.output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (output < 0) return absl::UnavailableError(absl::StrCat("cannot write ", start.output, ": ", strerror(errno)));
  const int input = open(start.input.empty() ? "/dev/null" : start.input.c_str(), O_RDONLY | O_CLOEXEC);
  std::vector<char*> arguments;
  for (const std::string& word : start.words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t pid = fork();
  const int error = errno;
  if (pid == 0) Become(arguments, start, output, input);
  close(output);
  close(input);
  if (pid < 0) return absl::UnavailableError(absl::StrCat("cannot start a process: ", strerror(error)));
  setpgid(pid, pid);
  return pid;
}

namespace {

// "python", "python3", "python3.11", "/x/bin/python3.11".
bool IsPython(const std::string& word) {
  const std::string name = std::filesystem::path(word).filename().string();
  absl::string_view rest = name;
  if (!absl::ConsumePrefix(&rest, "python")) return false;
  return std::all_of(rest.begin(), rest.end(), [](char c) { return (c >= '0' && c <= '9') || c == '.' || c == 't'; });
}

bool TakesValue(absl::string_view option) {
  return option == "-W" || option == "-X" || option == "--check-hash-based-pycs";
}

}  // namespace

std::optional<PythonCommand> ParsePythonCommand(const std::vector<std::string>& command) {
  if (command.empty() || !IsPython(command[0])) return std::nullopt;
  PythonCommand parsed;
  size_t i = 0;
  parsed.interpreter.push_back(command[i++]);
  for (; i < command.size(); ++i) {
    const std::string& word = command[i];
    if (word == "--") {
      ++i;
      break;
    }
    if (!absl::StartsWith(word, "-")) break;
    // Short options may be joined: -um. What follows an m is the module.
    const bool is_short = word.size() > 1 && word[1] != '-' && word[1] != 'W' && word[1] != 'X';
    const size_t run = is_short ? word.find_first_of("mc", 1) : std::string::npos;
    if (word == "-" || (run != std::string::npos && word[run] == 'c')) return std::nullopt;
    if (run != std::string::npos) {
      if (run > 1) parsed.interpreter.push_back(word.substr(0, run));
      const bool is_joined = run + 1 < word.size();
      if (!is_joined && i + 1 >= command.size()) return std::nullopt;
      parsed.module = is_joined ? word.substr(run + 1) : command[++i];
      parsed.arguments.assign(command.begin() + static_cast<std::ptrdiff_t>(i) + 1, command.end());
      return parsed;
    }
    parsed.interpreter.push_back(word);
    if (TakesValue(word) && i + 1 < command.size()) parsed.interpreter.push_back(command[++i]);
  }
  if (i >= command.size()) return std::nullopt;
  parsed.script = command[i];
  parsed.arguments.assign(command.begin() + static_cast<std::ptrdiff_t>(i) + 1, command.end());
  return parsed;
}

std::string ScriptState(const std::vector<std::string>& command) {
  const std::optional<PythonCommand> program = ParsePythonCommand(command);
  struct stat status {};
  const std::string& path = program.has_value() && !program->script.empty() ? program->script : command.front();
  if (stat(path.c_str(), &status) != 0) return "";
  return absl::StrCat(status.st_size, " ", status.st_mtim.tv_sec, ".", status.st_mtim.tv_nsec);
}

}  // namespace gpumem::plan
