// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// PlannedRun: a run of a program and what its traces say: how it ended, and the peaks of each process.
//
//   PlannedRun run = ReadRun(std::move(outcome), console);
//   run.processes.front().peaks.process
//
// Not thread-safe. Failure: a trace that cannot be read is complained about and left out.

#ifndef GPUMEM_PLANNER_PREDICT_PLANNED_RUN_H_
#define GPUMEM_PLANNER_PREDICT_PLANNED_RUN_H_

#include <memory>
#include <string>
#include <vector>

#include "base/console.h"
#include "ledger/load/load_trace.h"
#include "planner/launch/simulated_run.h"
#include "planner/predict/forecast.h"

namespace gpumem::plan {

struct PlannedRun {
  RunOutcome outcome;
  RunEnd end = RunEnd::kEnded;
  bool had_no_time = false;  // it was not begun, since the plan's time was up
  int exit_code = 0;
  std::vector<PlannedProcess> processes;  // largest peak first
  std::unique_ptr<LoadedTrace> loaded;    // of the first; null where there is none
  std::vector<HostRead> reads;            // of the first
  std::vector<SharedDevice> shared;       // fullest first
  TimeSpent time;                         // what is known of one run

  bool answered() const {
    return end != RunEnd::kCapability && !processes.empty() && processes.front().peaks.device >= 0;
  }
};

PlannedRun ReadRun(RunOutcome outcome, Console* console);

// It got through, as far as it was to.
bool Succeeded(const PlannedRun& run);

// Where it was when it was ended: as it said itself, or where it read most often; "" where nothing tells.
std::string StuckPlace(const PlannedRun& run);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_PREDICT_PLANNED_RUN_H_
