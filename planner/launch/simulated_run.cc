// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/launch/simulated_run.h"

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
#include "base/output_file.h"
#include "base/process.h"
#include "base/status_macros.h"
#include "planner/launch/embedded.h"
#include "planner/launch/program.h"
#include "planner/launch/ranks.h"

namespace gpumem::plan {
namespace {

namespace fs = std::filesystem;

constexpr int kTickMs = 20;
constexpr size_t kOutputBytes = 16 << 10;
constexpr int kSignals[SignalGuard::kSignalCount] = {SIGHUP, SIGINT, SIGTERM, SIGQUIT};

// The signal that wants to end us while a program runs. All of its processes go first: nobody else would end them.
volatile std::sig_atomic_t g_signal = 0;

void Note(int signal) { g_signal = signal; }

// Waits for the first process; the others are its children.
int WaitFor(pid_t pid, double deadline, const std::function<void()>& tick, bool* timed_out) {
  int status = 0, ticks = 0;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    if (MonotonicSeconds() > deadline || g_signal != 0) {
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
  if (const auto name = NameForLoader(recorder); !name.ok()) return name.status();
  const fs::path beside = fs::path(program).parent_path();
  const char* named = std::getenv("GPUMEMSHIM_SIMCUDA");
  const fs::path folder = named != nullptr && *named != '\0' ? fs::path(named) : beside / "../share/gpumemshim/simcuda";
  const char* libraries = std::getenv("SIMCUDA_LIB");
  std::error_code error;
  for (const fs::path& place : {fs::path(libraries == nullptr ? "" : libraries), beside / "../lib/simcuda",
                                beside / "../lib/gpumemshim/simcuda", folder}) {
    if (tools.libraries.empty() && fs::exists(place / "libcuda.so.1", error))
      tools.libraries = fs::weakly_canonical(place, error).string();
  }
  if (fs::exists(folder / "run", error)) tools.launcher = fs::weakly_canonical(folder / "run", error).string();
  if (tools.launcher.empty() || tools.libraries.empty()) {
    return absl::NotFoundError(absl::StrCat(
        "the simulated CUDA is not here (", (folder / "run").string(), ", ", (beside / "../lib/simcuda").string(),
        "). Build or install it (docs/packaging.md), or name its folder by GPUMEMSHIM_SIMCUDA."));
  }
  return tools;
}

absl::StatusOr<std::string> WriteInjectedScript(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/injected_script.py");
  const fs::path fake_ranks = FakeRanksFolder(path);
  std::error_code error;
  fs::create_directory(fake_ranks, error);
  const OutputOptions options{.hint = "Set TMPDIR to another place"};
  GPUMEM_RETURN_IF_ERROR(WriteOutput((fake_ranks / "sitecustomize.py").string(), EmbeddedFakeRanks(), options));
  for (const EmbeddedFile& file : EmbeddedInjectedFiles())
    GPUMEM_RETURN_IF_ERROR(WriteOutput(absl::StrCat(folder, "/", file.name), file.text, options));
  return path;
}

RunOutcome OutcomeOf(const RunRequest& run, int status, bool timed_out, double seconds) {
  RunOutcome outcome;
  outcome.status = status;
  outcome.timed_out = timed_out;
  outcome.seconds = seconds;
  outcome.traces = TracesIn(run.folder);
  outcome.processes = ReadProcessResults(run.folder);
  outcome.output = EndOf(absl::StrCat(run.folder, "/output"));
  outcome.spins = absl::StrContains(outcome.output, "(SIMCUDA_MAX_READS)");
  if (timed_out) outcome.stuck_stacks = ReadStuckStacks(run.folder);
  return outcome;
}

absl::StatusOr<RunOutcome> RunSimulated(const SimulationTools& tools, const RunRequest& run,
                                        const std::function<void()>& tick) {
  if (g_signal != 0) return absl::CancelledError("a signal came");
  GPUMEM_ASSIGN_OR_RETURN(const std::string injected_script, WriteInjectedScript(run.folder));
  const double started = MonotonicSeconds();
  GPUMEM_ASSIGN_OR_RETURN(
      const pid_t pid,
      StartProgram({ProgramWords(tools, run.on_gpu, run.command), ProgramEnvironment(tools, run, injected_script),
                    absl::StrCat(run.folder, "/output"), run.input, -1, run.directory}));
  bool timed_out = false;
  const int status = WaitFor(pid, started + run.timeout_s + kGraceSeconds, tick, &timed_out);
  if (g_signal != 0) return absl::CancelledError("a signal came");
  RunOutcome outcome = OutcomeOf(run, status, timed_out, MonotonicSeconds() - started);
  outcome.started = started;
  return outcome;
}

}  // namespace gpumem::plan
