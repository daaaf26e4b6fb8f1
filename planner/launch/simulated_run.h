// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Runs a program on simulated CUDA under the recorder, for a while: an own process group whose output goes to a file,
// ended by injected_script.py after its steps, or here when its time is up.
//
//   RunRequest run;
//   run.command = {"python", "train.py"};
//   run.device = *FindDevice("h100");
//   absl::StatusOr<RunOutcome> outcome = RunSimulated(tools, run);
//
// Thread-safety: one run at a time. A signal that SignalGuard notes ends the program, and the run fails with Cancelled.
// Failure else: where nothing could be started; all that happens to the program is in the
// outcome.

#ifndef GPUMEM_PLANNER_LAUNCH_SIMULATED_RUN_H_
#define GPUMEM_PLANNER_LAUNCH_SIMULATED_RUN_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/launch/device_profile.h"
#include "planner/launch/process_result.h"

namespace gpumem::plan {

// RunRequest: one run of a program on simulated CUDA, as a value: what is started, on which device, for how long.

// Where the parts are that a run needs.
struct SimulationTools {
  std::string recorder;   // libgpumemshim.so
  std::string launcher;   // simcuda/run
  std::string libraries;  // lib/simcuda
};

struct RunRequest {
  std::vector<std::string> command;
  std::vector<std::pair<std::string, std::string>> environment;  // set besides
  DeviceProfile device;
  int device_count = 1;
  int world_size = 0;  // where one process simulates `rank` of so many (ranks.h); 0 = it is what it is
  int rank = 0;
  int local_world_size = 1;              // ranks on its machine
  std::string from_launcher;             // "torchrun": what would start all of them; it starts this one (launchers.py)
  bool overcommit = true;                // the device gives more than it has, to see how much is wanted
  uint64_t others_mib = 0;               // memory of each device that somebody else holds
  std::string data_dependent = "upper";  // SIMCUDA_DATA_DEPENDENT
  std::string steps = "stable";          // or "stable:N" (N at least), "all", or a number
  enum class Lingers : uint8_t { kNo, kYes, kWhileItFits };
  Lingers lingers = Lingers::kNo;  // whether it goes on after that for some steps, to see whether it ends
  double timeout_s = 300;
  std::string workspaces = "measured";  // SIMCUDA_WORKSPACES
  bool late_events = false;             // events are ready when somebody waits, and not at once
  uint64_t most_reads = 0;  // of device memory by the host, beyond which the program waits for ever; 0 = no limit
  std::string what_if;      // changes.py: "foreach,checkpointing:6"
  std::string pins = "[]";  // injected_script.py
  enum class Values : uint8_t {
    kComputed,  // values that decide are computed where that can be (values.py)
    kOther,     // and where it cannot, reading one gives another than else
    kAllTrue,   // the same, but each condition holds
    kAllFalse,  // or does not
    kLeftOut,   // computed, and GradScaler leaves each step of an optimizer out
    kNone,      // nothing is computed
  } values = Values::kComputed;
  std::string at;  // kOther, kAllTrue, kAllFalse: only at this line, "train.py:12", or comparison, "train.py:12#34"
  int draw = 0;    // which random numbers are drawn where simulated kernels draw none
  std::string shares = "[]";  // JSON: [["train.py:57", 0.3]]: which share nonzero and its like find there
  std::string routing;        // which experts unknown routers choose: "balanced", "worst", a seed; "" = not said
  std::string input;          // a file that is standard input; "" = there is none
  std::string folder;         // an empty one, for traces and what the processes say
  std::string directory;      // where it runs; "" = here
  bool on_gpu = false;        // the machine's own, not a simulated one: all that describes a device is without meaning
};

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
