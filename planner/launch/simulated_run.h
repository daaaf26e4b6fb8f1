// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Runs a program on simulated CUDA under the recorder, for a while: an own process group whose output goes to a file,
// ended by injected_script.py after its steps, or here when its time is up.
//
//   RunRequest run;  // run_request.h
//   run.command = {"python", "train.py"};
//   run.device = *FindDevice("h100");
//   absl::StatusOr<RunOutcome> outcome = RunSimulated(tools, run);
//
// Thread-safety: one run at a time. A signal that SignalGuard notes ends the program, and the run fails with Cancelled.
// Failure else: where nothing could be started; all that happens to the program is in the
// outcome.

#ifndef GPUMEM_PLANNER_LAUNCH_SIMULATED_RUN_H_
#define GPUMEM_PLANNER_LAUNCH_SIMULATED_RUN_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/launch/process_result.h"
#include "planner/launch/run_request.h"

namespace gpumem::plan {

// `program` is the path of gpumemshim itself. GPUMEMSHIM_SIMCUDA names another folder that holds `run` (and the
// libraries, or SIMCUDA_LIB does). NotFound with the next step where a part is missing.
absl::StatusOr<SimulationTools> FindSimulationTools(const std::string& program, const std::string& recorder);

// A run is ended so long after its time is up: injected_script.py says where it is two seconds before that.
inline constexpr double kGraceSeconds = 3;

struct RunOutcome {
  int status = 0;  // of waitpid(2)
  bool timed_out = false;
  bool spins = false;  // it read device memory more than most_reads times
  double seconds = 0;
  double started = 0;               // of CLOCK_MONOTONIC
  bool forked = false;              // from a process that had imported what it imports (fork_server.h)
  double waited_s = 0;              // for a fork server to be ready: its interpreter's start and what it imported
  double imported_s = 0;            // of that: imports
  std::vector<std::string> traces;  // of the processes that used CUDA
  std::vector<ProcessResult> processes;
  std::string output;        // the end of what the program wrote
  std::string stuck_stacks;  // where it was when its time was up
};

// `tick` is called about ten times a second, for a line of progress; may be empty.
absl::StatusOr<RunOutcome> RunSimulated(const SimulationTools& tools, const RunRequest& run,
                                        const std::function<void()>& tick);

// The two ends of it, for whoever runs several at once: injected_script.py (and fake_ranks.py) as files in `folder`,
// and what a run whose first process ended so left in its folder.
absl::StatusOr<std::string> WriteInjectedScript(const std::string& folder);
RunOutcome OutcomeOf(const RunRequest& run, int status, bool timed_out, double seconds);

// While it lives, the signals that would end us (SIGHUP, SIGINT, SIGTERM, SIGQUIT) are noted: whoever holds it can tidy
// up and then die of them. One at a time.
class SignalGuard {
 public:
  static constexpr size_t kSignalCount = 4;
  SignalGuard();
  ~SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;

  // The last one that came in this process; 0 = none.
  static int Noted();

 private:
  void (*before_[kSignalCount])(int) = {};
};

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_LAUNCH_SIMULATED_RUN_H_
