// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// How the peak of a program grows with each axis of its sweep. Only rows that differ in that axis alone are compared
// (a group); the group with the most different values is fitted, the others say whether they agree. Pure functions;
// rows without a known peak are left out, and so are values that are no numbers.
//
//   for (const AxisScaling& axis : FitScaling(rows))
//     page.Line(ScalingSentence(axis, SweepLanguage::kEnglish));   // "seq_len: memory grows with its square"

#ifndef GPUMEM_PLANNER_SWEEP_SCALING_H_
#define GPUMEM_PLANNER_SWEEP_SCALING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "planner/sweep/row.h"

namespace gpumem::plan {

enum class SweepLanguage : uint8_t { kEnglish, kChinese };

enum class ScalingModel : uint8_t {
  kNone,       // nothing to fit
  kConstant,   // c0
  kLinear,     // c0 + c1 x
  kQuadratic,  // c0 + c1 x + c2 x^2
  kOther,      // grows, and none of these describes how
};

// "none", "constant", "linear", "quadratic", "other".
const char* ScalingModelName(ScalingModel model);

// Bytes as a polynomial of the axis' value. Where the model is kOther: of the straight line, to see how bad it is.
struct ScalingFit {
  ScalingModel model = ScalingModel::kNone;
  double constant = 0, linear = 0, quadratic = 0;
  double r_squared = 0;               // 1 where the curve goes through all points
  double largest_relative_error = 0;  // of a point, as a share of what was measured there
};

// What there was to fit.
enum class ScalingBasis : uint8_t {
  kVaried,       // a group of at least two values
  kOneValue,     // the axis has one value
  kNotNumeric,   // fewer than two of its values are numbers
  kNeverAlone,   // no two rows differ in this axis alone
  kPeaksUnknown  // there would be, but their peaks are not known
};

const char* ScalingBasisName(ScalingBasis basis);  // "varied", "one_value", "not_numeric", ...

struct AxisScaling {
  std::string axis;
  ScalingBasis basis = ScalingBasis::kVaried;
  ScalingFit allocated, reserved;
  // With two values any line goes through, with three any parabola: then the model is only what it looks like.
  bool weak = false;
  // From the least to the largest value the peak changes by less than 5 %.
  bool small = false;
  std::vector<double> values;                             // those of the fitted group, ascending
  std::vector<uint64_t> allocated_bytes, reserved_bytes;  // measured, one for each value
  Configuration fixed;                                    // the other axes' values in the fitted group
  int groups = 0;                                         // in which this axis alone varies
  int agreeing = 0;                                       // groups with the model of `allocated`, itself included
};

// One for each axis, in the order of the first row's values. Empty without rows.
std::vector<AxisScaling> FitScaling(const std::vector<SweepRow>& rows);

// One line that says it, with how far it can be relied on, but without the axis' name.
std::string ScalingSentence(const AxisScaling& scaling, SweepLanguage language);

// The simplest curve through measured points. Pure function.
//
//   FitCurve({1, 2, 4, 8}, {3, 5, 9, 17}).fit.model   // kLinear: 1 + 2 x
struct CurveFit {
  ScalingFit fit;
  bool weak = false;  // no point is left over to contradict it
};

// `x` ascends without repetitions; `y` is as long. A more complicated curve is taken only where the simpler one is off
// by more than a fiftieth of the whole change and the other three times better. A square needs four points to be more
// than what three points look like.
CurveFit FitCurve(const std::vector<double>& x, const std::vector<uint64_t>& y);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_SWEEP_SCALING_H_
