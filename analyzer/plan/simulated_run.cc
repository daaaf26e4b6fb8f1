// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "plan/simulated_run.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "plan/embedded.h"

namespace gpumem {
namespace {

namespace fs = std::filesystem;

constexpr double kGraceSeconds = 3;  // companion.py says where it is two seconds before the end
constexpr int kTickMs = 20;
constexpr size_t kOutputBytes = 16 << 10;
constexpr int kSignals[SignalGuard::kSignalCount] = {SIGHUP, SIGINT, SIGTERM, SIGQUIT};

// The signal that wants to end us while a program runs. All of its processes go first: nobody else would end them.
volatile std::sig_atomic_t g_signal = 0;

void Note(int signal) { g_signal = signal; }

double Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

using Variables = std::vector<std::pair<std::string, std::string>>;

Variables EnvironmentOf(const SimulationTools& tools, const SimulatedRun& run, const std::string& companion) {
  const char* preloaded = std::getenv("LD_PRELOAD");
  const std::string preload =
      preloaded == nullptr || *preloaded == '\0' ? tools.recorder : absl::StrCat(tools.recorder, ":", preloaded);
  Variables variables = {
      {"LD_PRELOAD", preload},
      {"GPUMEMSHIM_OUTPUT", absl::StrCat(run.folder, "/%n.%p.gmtrace")},
      {"GPUMEMSHIM_COMPANION", companion},
      {"GPUMEMSHIM_QUIET", "1"},
      {"GPUMEMSHIM_CONTROL", "0"},
      {"GPUMEMSHIM_DISABLE", "0"},
      {"GPUMEMSHIM_START", "on"},
      {"GPUMEMSHIM_RING_SIZE", "64M"},
      {"GPUMEMSHIM_RING_DIRECTORY", run.folder},
      {"SIMCUDA_DEVICES", absl::StrCat(run.device_count)},
      {"SIMCUDA_NAME", run.device.full_name},
      {"SIMCUDA_MEM_MB", absl::StrCat(run.device.memory_mib)},
      {"SIMCUDA_CTX_MB", absl::StrCat(run.device.context_mib)},
      {"SIMCUDA_CC", absl::StrCat(run.device.capability)},
      {"SIMCUDA_SMS", absl::StrCat(run.device.multiprocessors)},
      {"SIMCUDA_SMEM", absl::StrCat(run.device.shared_memory)},
      {"SIMCUDA_OVERCOMMIT", run.overcommit ? "1" : "0"},
      {"SIMCUDA_DATA_DEPENDENT", run.data_dependent},
      {"SIMCUDA_EVENTS", run.late_events ? "late" : ""},
      {"SIMCUDA_MAX_READS", run.most_reads == 0 ? "" : absl::StrCat(run.most_reads)},
      {"GPUMEM_PLAN_FOLDER", run.folder},
      {"GPUMEM_PLAN_STEPS", run.steps},
      {"GPUMEM_PLAN_DEADLINE", absl::StrCat(Now() + run.timeout_s)},
      {"GPUMEM_PLAN_WHAT_IF", run.what_if},
      {"GPUMEM_PLAN_PINS", run.pins},
      {"PYTHONFAULTHANDLER", ""},
  };
  variables.insert(variables.end(), run.environment.begin(), run.environment.end());
  return variables;
}

// Behind a fork: only what is needed, then the program.
[[noreturn]] void Become(const std::vector<char*>& arguments, const Variables& variables, int output, int input) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // where we are killed there is nobody else to end it
  for (const int signal : kSignals) std::signal(signal, SIG_DFL);
  for (const auto& [name, value] : variables) {
    if (value.empty()) {
      unsetenv(name.c_str());
    } else {
      setenv(name.c_str(), value.c_str(), 1);
    }
  }
  dup2(input, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  execvp(arguments[0], arguments.data());
  _exit(127);
}

// Waits for the first process; the others are its children.
int WaitFor(pid_t pid, double deadline, const std::function<void()>& tick, bool* timed_out) {
  int status = 0, ticks = 0;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    if (Now() > deadline || g_signal != 0) {
      *timed_out = g_signal == 0;
      kill(-pid, SIGKILL);
      waitpid(pid, &status, 0);
      break;
    }
    const timespec pause{0, kTickMs * 1'000'000};
    nanosleep(&pause, nullptr);
    if (++ticks % 5 == 0 && tick) tick();
  }
  kill(-pid, SIGKILL);  // what it left behind
  return status;
}

std::string EndOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return "";
  const auto size = static_cast<size_t>(file.tellg());
  std::string text(std::min(size, kOutputBytes), '\0');
  file.seekg(static_cast<std::streamoff>(size - text.size()));
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  return text;
}

std::vector<std::string> TracesIn(const std::string& folder) {
  std::vector<std::string> traces;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".gmtrace") traces.push_back(entry.path().string());
  }
  std::sort(traces.begin(), traces.end());
  return traces;
}

}  // namespace

SignalGuard::SignalGuard() {
  for (size_t i = 0; i < kSignalCount; ++i) before_[i] = std::signal(kSignals[i], &Note);
}

SignalGuard::~SignalGuard() {
  for (size_t i = 0; i < kSignalCount; ++i) std::signal(kSignals[i], before_[i]);
}

int SignalGuard::Noted() { return g_signal; }

absl::StatusOr<SimulationTools> FindSimulationTools(const std::string& program, const std::string& recorder) {
  SimulationTools tools;
  tools.recorder = recorder;
  const fs::path beside = fs::path(program).parent_path();
  const char* named = std::getenv("GPUMEM_SIMCUDA");
  const fs::path folder = named != nullptr && *named != '\0' ? fs::path(named) : beside / "../share/gpumem/simcuda";
  const char* libraries = std::getenv("SIMCUDA_LIB");
  std::error_code error;
  for (const fs::path& place : {fs::path(libraries == nullptr ? "" : libraries), beside / "../lib/simcuda",
                                beside / "../lib/gpumemshim/simcuda", folder}) {
    if (tools.libraries.empty() && fs::exists(place / "libcuda.so.1", error))
      tools.libraries = fs::weakly_canonical(place, error).string();
  }
  if (fs::exists(folder / "run", error)) tools.launcher = fs::weakly_canonical(folder / "run", error).string();
  if (tools.launcher.empty() || tools.libraries.empty()) {
    return absl::NotFoundError(absl::StrCat("the simulated CUDA is not here (", (folder / "run").string(), ", ",
                                            (beside / "../lib/simcuda").string(),
                                            "). Build it (scripts/build), or name its folder by GPUMEM_SIMCUDA."));
  }
  return tools;
}

absl::StatusOr<RunOutcome> RunSimulated(const SimulationTools& tools, const SimulatedRun& run,
                                        const std::function<void()>& tick) {
  if (g_signal != 0) return absl::CancelledError("a signal came");
  const std::string companion = absl::StrCat(run.folder, "/companion.py");
  const std::string output_path = absl::StrCat(run.folder, "/output");
  {
    std::ofstream file(companion, std::ios::binary);
    file << EmbeddedCompanion();
    if (!file.flush()) return absl::UnavailableError(absl::StrCat("cannot write into ", run.folder));
  }
  const int output = open(output_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const int input = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (output < 0 || input < 0) return absl::UnavailableError(absl::StrCat("cannot write ", output_path));
  std::vector<std::string> words = {"python3", tools.launcher, "--lib", tools.libraries, "--"};
  words.insert(words.end(), run.command.begin(), run.command.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const Variables variables = EnvironmentOf(tools, run, companion);
  const double started = Now();
  const pid_t pid = fork();
  if (pid < 0) return absl::UnavailableError(absl::StrCat("cannot start a process: ", strerror(errno)));
  if (pid == 0) Become(arguments, variables, output, input);
  setpgid(pid, pid);
  RunOutcome outcome;
  outcome.status = WaitFor(pid, started + run.timeout_s + kGraceSeconds, tick, &outcome.timed_out);
  close(output);
  close(input);
  if (g_signal != 0) return absl::CancelledError("a signal came");
  outcome.seconds = Now() - started;
  outcome.traces = TracesIn(run.folder);
  outcome.processes = ReadProcessResults(run.folder);
  outcome.output = EndOf(output_path);
  outcome.spins = absl::StrContains(outcome.output, "(SIMCUDA_MAX_READS)");
  if (outcome.timed_out) outcome.stuck_stacks = ReadStuckStacks(run.folder);
  return outcome;
}

}  // namespace gpumem
