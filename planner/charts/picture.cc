// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/charts/picture.h"

#include <cairo-pdf.h>
#include <cairo-svg.h>
#include <cairo.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/utf8.h"
#include "planner/charts/canvas.h"
#include "planner/charts/font.h"
#include "planner/charts/text_measure.h"

namespace gpumem::plots {
namespace {

// Draws the marks of a canvas with cairo, whatever the surface. Errors stay in the context. Not thread-safe.

class CairoPainter {
 public:
  explicit CairoPainter(cairo_t* context) : context_(context) {}

  void operator()(const PathMark& mark) const {
    for (const Point& point : mark.points) cairo_line_to(context_, point.x, point.y);  // the first one moves there
    if (mark.closed) cairo_close_path(context_);
    FillAndStroke(mark.fill, mark.stroke);
  }

  void operator()(const CircleMark& mark) const {
    cairo_arc(context_, mark.center.x, mark.center.y, mark.radius, 0, 2 * std::numbers::pi);
    cairo_close_path(context_);
    FillAndStroke(mark.fill, mark.stroke);
  }

  void operator()(const TextMark& mark) const {
    const std::string text = EscapeControls(mark.text);  // valid UTF-8 without NUL: others are an error to cairo
    cairo_save(context_);
    UseFont(mark.look.size, mark.look.bold, context_);
    cairo_translate(context_, mark.at.x, mark.at.y);
    cairo_rotate(context_, mark.look.degrees * std::numbers::pi / 180);
    Use(mark.look.color);
    const double width = TextWidth(mark.text, mark.look.size, mark.look.bold);
    cairo_move_to(context_, -width * 0.5 * static_cast<double>(mark.look.anchor), 0);
    cairo_show_text(context_, text.c_str());
    cairo_restore(context_);
    cairo_new_path(context_);
  }

 private:
  void Use(Color color) const {
    cairo_set_source_rgba(context_, color.red / 255.0, color.green / 255.0, color.blue / 255.0, color.alpha);
  }

  void FillAndStroke(const std::optional<Color>& fill, const std::optional<Stroke>& stroke) const {
    if (fill.has_value()) {
      Use(*fill);
      cairo_fill_preserve(context_);
    }
    if (stroke.has_value()) {
      Use(stroke->color);
      cairo_set_line_width(context_, stroke->width);
      const double dashes[] = {4 * stroke->width, 3 * stroke->width};
      cairo_set_dash(context_, dashes, stroke->dashed ? 2 : 0, 0);
      cairo_stroke(context_);
    }
    cairo_new_path(context_);
  }

  cairo_t* context_;
};

// The whole picture on white.
inline void PaintCanvas(const Canvas& canvas, cairo_t* context) {
  cairo_set_line_join(context, CAIRO_LINE_JOIN_ROUND);
  cairo_set_source_rgb(context, 1, 1, 1);
  cairo_paint(context);
  const CairoPainter painter(context);
  for (const Mark& mark : canvas.marks()) std::visit(painter, mark);
}

// Of cairo's streams: into a std::string.
inline cairo_status_t AppendBytes(void* closure, const unsigned char* bytes, unsigned int count) {
  static_cast<std::string*>(closure)->append(reinterpret_cast<const char*>(bytes), count);
  return CAIRO_STATUS_SUCCESS;
}

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
