// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A picture as a PNG file, drawn by cairo. libcairo.so.2 is opened when the first picture is drawn, so gpumem does not
// need it to start; where it is absent an error names the package.
//
//   absl::StatusOr<std::string> bytes = PngBytes(canvas);
//   if (absl::IsUnavailable(bytes.status())) ...   // no cairo here: SvgText draws the same

#ifndef GPUMEM_PLANNER_CHARTS_PNG_H_
#define GPUMEM_PLANNER_CHARTS_PNG_H_

#include <string>

#include "absl/status/statusor.h"
#include "planner/charts/canvas.h"

namespace gpumem::plots {

// `scale` pixels a point. Fails with Unavailable where `library` cannot be opened or lacks a function, and with
// Internal where cairo fails (out of memory, a picture of more than 32767 pixels a side).
absl::StatusOr<std::string> PngBytes(const Canvas& canvas, double scale = 1.5, const char* library = "libcairo.so.2");

}  // namespace gpumem::plots

#endif  // GPUMEM_PLANNER_CHARTS_PNG_H_
