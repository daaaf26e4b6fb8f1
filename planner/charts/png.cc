// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/charts/png.h"

#include <cmath>
#include <memory>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "planner/charts/cairo_library.h"

namespace gpumem::plots {
namespace {

constexpr double kMaxPixels = 32767;  // a side, of cairo's images

// Draws marks into one context of cairo's. Errors stay in the context, so only its status is asked, at the end.
class Painter {
 public:
  Painter(const CairoLibrary& cairo, CairoContext* context) : cairo_(cairo), context_(context) {}

  void operator()(const PathMark& mark) const {
    cairo_.new_path(context_);
    for (size_t i = 0; i < mark.points.size(); ++i)
      (i == 0 ? cairo_.move_to : cairo_.line_to)(context_, mark.points[i].x, mark.points[i].y);
    if (mark.closed) cairo_.close_path(context_);
    FillAndStroke(mark.fill, mark.stroke);
  }

  void operator()(const CircleMark& mark) const {
    cairo_.new_path(context_);
    cairo_.arc(context_, mark.center.x, mark.center.y, mark.radius, 0, 2 * std::numbers::pi);
    cairo_.close_path(context_);
    FillAndStroke(mark.fill, mark.stroke);
  }

  void operator()(const TextMark& mark) const {
    const std::string text = EscapeControls(mark.text);  // valid UTF-8 without NUL: others are an error to cairo
    cairo_.save(context_);
    cairo_.select_font_face(context_, "DejaVu Sans", kCairoSlantNormal,
                            mark.look.bold ? kCairoWeightBold : kCairoWeightNormal);
    cairo_.set_font_size(context_, mark.look.size);
    CairoTextExtents extents{};
    cairo_.text_extents(context_, text.c_str(), &extents);
    cairo_.translate(context_, mark.at.x, mark.at.y);
    cairo_.rotate(context_, mark.look.degrees * std::numbers::pi / 180);
    Use(mark.look.color);
    cairo_.move_to(context_, -extents.x_advance * 0.5 * static_cast<double>(mark.look.anchor), 0);
    cairo_.show_text(context_, text.c_str());
    cairo_.restore(context_);
  }

 private:
  void Use(Color color) const {
    cairo_.set_source_rgba(context_, color.red / 255.0, color.green / 255.0, color.blue / 255.0, color.alpha);
  }

  void FillAndStroke(const std::optional<Color>& fill, const std::optional<Stroke>& stroke) const {
    if (fill.has_value()) {
      Use(*fill);
      cairo_.fill_preserve(context_);
    }
    if (stroke.has_value()) {
      Use(stroke->color);
      cairo_.set_line_width(context_, stroke->width);
      const double dashes[] = {4 * stroke->width, 3 * stroke->width};
      cairo_.set_dash(context_, dashes, stroke->dashed ? 2 : 0, 0);
      cairo_.stroke(context_);
    }
    cairo_.new_path(context_);
  }

  const CairoLibrary& cairo_;
  CairoContext* context_;
};

int AppendBytes(void* closure, const unsigned char* bytes, unsigned int count) {
  static_cast<std::string*>(closure)->append(reinterpret_cast<const char*>(bytes), count);
  return kCairoSuccess;
}

}  // namespace

absl::StatusOr<std::string> PngBytes(const Canvas& canvas, double scale, const char* library) {
  GPUMEM_ASSIGN_OR_RETURN(const std::unique_ptr<CairoLibrary> cairo, OpenCairo(library));
  const double width = std::ceil(canvas.width() * scale), height = std::ceil(canvas.height() * scale);
  if (!(width >= 1 && height >= 1 && width <= kMaxPixels && height <= kMaxPixels))
    return absl::InternalError(absl::StrCat("cairo draws no picture of ", width, " x ", height, " pixels"));
  CairoSurface* const surface =
      cairo->image_surface_create(kCairoRgb24, static_cast<int>(width), static_cast<int>(height));
  CairoContext* const context = cairo->create(surface);
  cairo->scale(context, scale, scale);
  cairo->set_line_join(context, kCairoJoinRound);
  cairo->set_source_rgba(context, 1, 1, 1, 1);
  cairo->paint(context);
  const Painter painter(*cairo, context);
  for (const Mark& mark : canvas.marks()) std::visit(painter, mark);
  std::string bytes;
  int status = cairo->status(context);
  if (status == kCairoSuccess) status = cairo->surface_write_to_png_stream(surface, AppendBytes, &bytes);
  cairo->destroy(context);
  cairo->surface_destroy(surface);
  if (status != kCairoSuccess)
    return absl::InternalError(absl::StrCat("cairo failed: ", cairo->status_to_string(status)));
  return bytes;
}

}  // namespace gpumem::plots
