// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A picture as a PNG file, drawn by cairo. The same picture gives the same bytes. Not thread-safe.
//
//   GPUMEM_ASSIGN_OR_RETURN(const std::string bytes, PngBytes(canvas));

#ifndef GPUMEM_PLANNER_CHARTS_PNG_H_
#define GPUMEM_PLANNER_CHARTS_PNG_H_

#include <string>

#include "absl/status/statusor.h"
#include "planner/charts/canvas.h"

namespace gpumem::plots {

// `scale` pixels a point, fewer where a side would have more than cairo's 32767. Fails with Internal where the picture
// has no size, and where memory is out.
absl::StatusOr<std::string> PngBytes(const Canvas& canvas, double scale = 1.5);

}  // namespace gpumem::plots

#endif  // GPUMEM_PLANNER_CHARTS_PNG_H_
