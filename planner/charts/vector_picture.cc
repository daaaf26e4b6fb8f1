// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/charts/vector_picture.h"

#include <cairo-pdf.h>
#include <cairo-svg.h>

#include "absl/strings/str_cat.h"
#include "planner/charts/cairo_painter.h"

namespace gpumem::plots {

absl::StatusOr<std::string> VectorBytes(const Canvas& canvas, VectorFormat format) {
  std::string bytes;
  cairo_surface_t* const surface =
      format == VectorFormat::kSvg
          ? cairo_svg_surface_create_for_stream(AppendBytes, &bytes, canvas.width(), canvas.height())
          : cairo_pdf_surface_create_for_stream(AppendBytes, &bytes, canvas.width(), canvas.height());
  // Else the time of day would be in it.
  if (format == VectorFormat::kPdf)
    cairo_pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_CREATE_DATE, "1970-01-01T00:00:00Z");
  cairo_t* const context = cairo_create(surface);
  PaintCanvas(canvas, context);
  cairo_status_t status = cairo_status(context);
  cairo_destroy(context);
  cairo_surface_finish(surface);
  if (status == CAIRO_STATUS_SUCCESS) status = cairo_surface_status(surface);
  cairo_surface_destroy(surface);
  if (status != CAIRO_STATUS_SUCCESS)
    return absl::InternalError(absl::StrCat("cairo failed: ", cairo_status_to_string(status)));
  return bytes;
}

}  // namespace gpumem::plots
