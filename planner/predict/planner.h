// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Planner: runs a program on simulated CUDA as often as a forecast needs it, and reads what each run's traces say. Its
// folder of traces goes with it; KeepTraces saves those of one run.
//
//   Planner planner(tools, console);
//   absl::StatusOr<PlannedRun> run = planner.Run(request, "as it is");
//   run->processes.front().peaks.process
//
// Not thread-safe. Failure: an error where nothing could be started; a program that fails is an answer.

#ifndef GPUMEM_PLANNER_PREDICT_PLANNER_H_
#define GPUMEM_PLANNER_PREDICT_PLANNER_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/console.h"
#include "planner/launch/run_pool.h"
#include "planner/launch/simulated_run.h"
#include "planner/predict/planned_run.h"

namespace gpumem::plan {

class Planner {
 public:
  Planner(SimulationTools tools, Console* console) : tools_(std::move(tools)), console_(console) {}
  ~Planner();
  Planner(const Planner&) = delete;
  Planner& operator=(const Planner&) = delete;

  // From now on all runs together have `seconds`: each ends at the end of these, and one that would begin later is not
  // made (PlannedRun::had_no_time).
  void EndAfter(double seconds);

  // `request.folder` is set here. `what` names the run in the line of progress.
  absl::StatusOr<PlannedRun> Run(RunRequest request, const std::string& what);

  // The same where there will be several runs of a program: those after the first need not import again what that one
  // imported (run_pool.h).
  absl::StatusOr<PlannedRun> RunAgain(RunRequest request, const std::string& what);

  // Further runs, as many at once as the machine has processors for; `ended` gets the index of each that is over, and
  // what it says. After a signal the others are left out.
  void RunAll(const std::vector<std::pair<RunRequest, std::string>>& runs,
              const std::function<void(size_t, absl::StatusOr<PlannedRun>)>& ended);

  // Moves the run's traces to `wanted`: a file for the first one (the others beside it), a folder, or "" for the
  // working directory. Sets the processes' `trace`.
  absl::Status KeepTraces(const std::string& wanted, PlannedRun* run);

  int runs() const { return runs_; }
  // Seconds in all of them so far, with the reading of their traces.
  double spent_s() const { return spent_s_; }

 private:
  absl::Status MakeFolder();
  // An empty one for a run.
  absl::Status PrepareRun(RunRequest* request);
  bool HasTime() const;
  // What a program is to read where somebody gives us something: each run reads it from its beginning.
  absl::Status KeepInput(const RunRequest& request);
  // The place where further runs are made.
  absl::Status MakePool();

  const SignalGuard guard_;  // else the folder would stay
  const SimulationTools tools_;
  Console* const console_;
  std::string folder_, input_;
  bool input_is_kept_ = false;
  std::unique_ptr<RunPool> pool_;
  int runs_ = 0;
  double spent_s_ = 0;
  std::optional<double> until_;  // of MonotonicSeconds
};

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_PREDICT_PLANNER_H_
