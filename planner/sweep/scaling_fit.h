// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The simplest curve through measured points. Pure function.
//
//   FitCurve({1, 2, 4, 8}, {3, 5, 9, 17}).fit.model   // kLinear: 1 + 2 x

#ifndef GPUMEM_PLANNER_SWEEP_SCALING_FIT_H_
#define GPUMEM_PLANNER_SWEEP_SCALING_FIT_H_

#include <cstdint>
#include <vector>

#include "planner/sweep/scaling.h"

namespace gpumem::plan {

struct CurveFit {
  ScalingFit fit;
  bool weak = false;  // no point is left over to contradict it
};

// `x` ascends without repetitions; `y` is as long. A more complicated curve is taken only where the simpler one is off
// by more than a fiftieth of the whole change and the other three times better. A square needs four points to be more
// than what three points look like.
CurveFit FitCurve(const std::vector<double>& x, const std::vector<uint64_t>& y);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_SWEEP_SCALING_FIT_H_
