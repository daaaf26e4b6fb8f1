// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Which changes could save memory, each run once more with it, or estimated where that cannot be run.

#ifndef GPUMEM_PLANNER_PREDICT_WHAT_IF_H_
#define GPUMEM_PLANNER_PREDICT_WHAT_IF_H_

#include <vector>

#include "ledger/attribution/attribution.h"
#include "planner/predict/forecast.h"
#include "planner/predict/planner.h"

namespace gpumem::plan {

// The largest savings first, three at most; `run` is the run that they are compared with, `moment` its peak (null
// where nothing tells what it is made of).
std::vector<WhatIf> TryChanges(const RunRequest& request, const PlannedRun& run, const Moment* moment,
                               Planner* planner);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_PREDICT_WHAT_IF_H_
