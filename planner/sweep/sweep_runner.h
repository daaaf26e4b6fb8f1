// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// SweepRunner: runs the configurations of a sweep, several at once, and keeps what each of them came to. Those that its
// journal has are not run again. On a simulated GPU a configuration that needs more than there is runs a second time
// with no more than there is: PyTorch may get through all the same, by giving its cache back. A sweep whose program
// cannot run at all ends early: where the first and the last configuration fail in the same way, and no other did
// better, nothing more is begun.
//
//   SweepRunner runner(spec, configurations, base, tools, options, &journal, console);
//   absl::StatusOr<std::vector<SweepRow>> rows = runner.Run();
//
// Not thread-safe. Failure: Cancelled where a signal came, all that is done is kept; else where nothing could be
// started or written.

#ifndef GPUMEM_PLANNER_SWEEP_SWEEP_RUNNER_H_
#define GPUMEM_PLANNER_SWEEP_SWEEP_RUNNER_H_

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/console.h"
#include "planner/launch/run_pool.h"
#include "planner/launch/simulated_run.h"
#include "planner/predict/planned_run.h"
#include "planner/sweep/journal.h"
#include "planner/sweep/row.h"
#include "planner/sweep/spec.h"

namespace gpumem::plan {

struct SweepOptions {
  int workers = 0;           // 0: as many as there are processors and memory for; on a GPU one
  bool forks = true;         // false: every run in a fresh process
  bool fresh = false;        // what the journal has is not looked at
  bool retry = false;        // but for what had no answer
  std::string tool_version;  // of gpumemshim
};

class SweepRunner {
 public:
  SweepRunner(const SweepSpec& spec, std::vector<Configuration> configurations, RunRequest base, SimulationTools tools,
              SweepOptions options, SweepJournal* journal, Console* console);

  absl::StatusOr<std::vector<SweepRow>> Run();

  // Of the rows, from earlier runs of the sweep.
  size_t kept() const { return kept_; }
  // Configurations that were not run, since all fail in the same way.
  size_t left() const { return left_; }
  const std::vector<std::string>& notes() const { return pool_->notes(); }

 private:
  struct Item {
    int number = 0;
    RunRequest run;
    std::string identity;
    bool is_done = false;
    SweepRow row;
  };

  absl::Status Prepare();
  // What is to run, in the order in which it begins: the two ends of the sweep first.
  std::deque<size_t> Waiting() const;
  // Whether the first and the last configuration failed, and all that ran did with the same words but for their values.
  bool AllFailAlike() const;
  absl::Status Begin(size_t index, bool tight);
  bool HasRoom() const;
  absl::Status TakeIn(EndedRun ended);
  absl::Status Finish(Item* item);
  absl::Status KeepTraces(Item* item, const PlannedRun& run);
  void Report(const Item& item);

  const SweepSpec& spec_;
  const std::vector<Configuration> configurations_;
  const RunRequest base_;
  const SweepOptions options_;
  SweepJournal* const journal_;
  Console* const console_;
  std::unique_ptr<RunPool> pool_;
  std::vector<Item> items_;
  size_t done_ = 0, kept_ = 0, left_ = 0;
  uint64_t largest_rss_kib_ = 0;  // of a run so far
};

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_SWEEP_SWEEP_RUNNER_H_
