// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// How wide text will be, for layout: as cairo will draw it, which shows control characters and bytes that are no UTF-8
// escaped. Any bytes are fine. Not thread-safe.
//
//   FitText("activations", 16, 60)     // "activ…"
//   FitText("examples/train.py:97 step", 16, 160)   // "…/train.py:97 step"
//   WrapText("peak by sequence length", 16, 120, 2)

#ifndef GPUMEM_PLANNER_CHARTS_TEXT_MEASURE_H_
#define GPUMEM_PLANNER_CHARTS_TEXT_MEASURE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace gpumem::plots {

// In points, at a font size in points.
double TextWidth(absl::string_view text, double size, bool bold = false);

// `text`, or its beginning with an ellipsis where it is wider than `room`; of a file in folders its end. Empty where
// not even one character fits.
std::string FitText(absl::string_view text, double size, double room, bool bold = false);

// Lines of at most `room`, broken at blanks; what is left after `most_lines` is cut with an ellipsis.
std::vector<std::string> WrapText(absl::string_view text, double size, double room, size_t most_lines,
                                  bool bold = false);

}  // namespace gpumem::plots

#endif  // GPUMEM_PLANNER_CHARTS_TEXT_MEASURE_H_
