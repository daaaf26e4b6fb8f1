// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Finds how a program can do with less memory: runs it once with each change, then with several together, until it
// needs no more than a goal, and then with as little of them as still reaches it.
//
//   forecast.explanation = FindReductions(forecaster.chosen(), forecast, goal, MeasureBy(&planner));
//
// At most kMaxReductionRuns runs, each as long as the one that the forecast is of. Failure: none of its own; a run that
// fails says so in its row, and ends the search only where it was cancelled.

#ifndef GPUMEM_PLANNER_PREDICT_FIND_REDUCTIONS_H_
#define GPUMEM_PLANNER_PREDICT_FIND_REDUCTIONS_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "planner/predict/forecast.h"
#include "planner/predict/planner.h"

namespace gpumem::plan {

inline constexpr int kMaxReductionRuns = 30;

// A run with changes: what it says of itself.
struct MeasuredChange {
  std::optional<uint64_t> need;       // none: it did not get through
  std::string failure;                // why not
  std::vector<ChangeReport> reports;  // of all its processes together
  uint64_t steps = 0;                 // of the one that needs most
};

struct ChangedRun {
  RunRequest request;
  std::string what;  // "7 of at most 30: loss in 8 chunks"
};
using MeasureChanges = std::function<std::vector<MeasuredChange>(const std::vector<ChangedRun>&)>;

// The runs are made by `planner`, several at once where the machine has processors for them.
MeasureChanges MeasureBy(Planner* planner);

Explanation FindReductions(const RunRequest& request, const Forecast& forecast, uint64_t goal,
                           const MeasureChanges& measure);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_PREDICT_FIND_REDUCTIONS_H_
