// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Makes the row of a configuration of what its run left.
//
//   SweepRow row = MakeRow(&run, capacity, console);   // values, number and trace are the caller's
//
// Not thread-safe. Failure: what the trace does not tell stays empty; the row then has a reason.

#ifndef GPUMEM_PLANNER_SWEEP_MEASURED_ROW_H_
#define GPUMEM_PLANNER_SWEEP_MEASURED_ROW_H_

#include <cstdint>

#include "base/console.h"
#include "planner/predict/planned_run.h"
#include "planner/sweep/row.h"

namespace gpumem::plan {

// `capacity`: of the device, in bytes; 0 = as the trace has it.
SweepRow MakeRow(PlannedRun* run, uint64_t capacity, Console* console);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_SWEEP_MEASURED_ROW_H_
