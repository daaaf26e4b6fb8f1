// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/charts/png.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "planner/charts/cairo_painter.h"

namespace gpumem::plots {
namespace {

constexpr double kMaxPixels = 32767;  // a side, of cairo's images

}  // namespace

absl::StatusOr<std::string> PngBytes(const Canvas& canvas, double scale) {
  scale = std::min(scale, kMaxPixels / std::max(canvas.width(), canvas.height()));
  const double width = std::min(std::ceil(canvas.width() * scale), kMaxPixels);
  const double height = std::min(std::ceil(canvas.height() * scale), kMaxPixels);
  if (!(width >= 1 && height >= 1))
    return absl::InternalError(absl::StrCat("cairo draws no picture of ", width, " x ", height, " pixels"));
  cairo_surface_t* const surface =
      cairo_image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(width), static_cast<int>(height));
  cairo_t* const context = cairo_create(surface);
  cairo_scale(context, scale, scale);
  PaintCanvas(canvas, context);
  std::string bytes;
  cairo_status_t status = cairo_status(context);
  if (status == CAIRO_STATUS_SUCCESS) status = cairo_surface_write_to_png_stream(surface, AppendBytes, &bytes);
  cairo_destroy(context);
  cairo_surface_destroy(surface);
  if (status != CAIRO_STATUS_SUCCESS)
    return absl::InternalError(absl::StrCat("cairo failed: ", cairo_status_to_string(status)));
  return bytes;
}

}  // namespace gpumem::plots
