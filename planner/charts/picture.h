// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A picture as a file, drawn by cairo: PNG, or SVG and PDF, which are sharp at any size, with text as outlines, so no
// font is needed to look at it. The same picture gives the same bytes, but for the number of the surface that cairo
// counts up in SVG. Not thread-safe.
//
//   GPUMEM_ASSIGN_OR_RETURN(const std::string bytes, PngBytes(canvas));
//   GPUMEM_ASSIGN_OR_RETURN(const std::string drawing, VectorBytes(canvas, VectorFormat::kSvg));

#ifndef GPUMEM_PLANNER_CHARTS_PICTURE_H_
#define GPUMEM_PLANNER_CHARTS_PICTURE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "planner/charts/canvas.h"

namespace gpumem::plots {

// A picture as a PNG file, drawn by cairo. The same picture gives the same bytes. Not thread-safe.
//
//   GPUMEM_ASSIGN_OR_RETURN(const std::string bytes, PngBytes(canvas));

// `scale` pixels a point, fewer where a side would have more than cairo's 32767. Fails with Internal where the picture
// has no size, and where memory is out.
absl::StatusOr<std::string> PngBytes(const Canvas& canvas, double scale = 1.5);

// A picture as SVG or PDF, drawn by cairo: sharp at any size, text as outlines, so no font is needed to look at it.
// The same picture gives the same bytes, but for the number of the surface that cairo counts up in SVG. Not
// thread-safe.
//
//   GPUMEM_ASSIGN_OR_RETURN(const std::string bytes, VectorBytes(canvas, VectorFormat::kSvg));
enum class VectorFormat : uint8_t { kSvg, kPdf };

// Fails with Internal where memory is out.
absl::StatusOr<std::string> VectorBytes(const Canvas& canvas, VectorFormat format);

}  // namespace gpumem::plots

#endif  // GPUMEM_PLANNER_CHARTS_PICTURE_H_
