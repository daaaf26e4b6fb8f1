// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// CairoLibrary: the few functions of cairo 1.x that pictures need, found by dlopen. Declared here from cairo's public
// documentation (its ABI has been stable since 1.0), so that neither its headers nor the library are needed to build.
// Stays open once it was opened. Not thread-safe.
//
//   GPUMEM_ASSIGN_OR_RETURN(std::unique_ptr<CairoLibrary> cairo, OpenCairo("libcairo.so.2"));
//   CairoSurface* surface = cairo->image_surface_create(kCairoRgb24, 640, 480);

#ifndef GPUMEM_PLANNER_CHARTS_CAIRO_LIBRARY_H_
#define GPUMEM_PLANNER_CHARTS_CAIRO_LIBRARY_H_

#include <memory>

#include "absl/status/statusor.h"

namespace gpumem::plots {

struct CairoSurface;  // cairo_surface_t
struct CairoContext;  // cairo_t
struct CairoTextExtents {
  double x_bearing, y_bearing, width, height, x_advance, y_advance;
};
using CairoWriter = int (*)(void* closure, const unsigned char* bytes, unsigned int count);

// Values of cairo's enumerations.
inline constexpr int kCairoSuccess = 0;
inline constexpr int kCairoRgb24 = 1;
inline constexpr int kCairoSlantNormal = 0, kCairoWeightNormal = 0, kCairoWeightBold = 1;
inline constexpr int kCairoJoinRound = 1;

struct CairoLibrary {
  CairoSurface* (*image_surface_create)(int format, int width, int height);
  int (*surface_write_to_png_stream)(CairoSurface*, CairoWriter, void* closure);
  void (*surface_destroy)(CairoSurface*);
  CairoContext* (*create)(CairoSurface*);
  void (*destroy)(CairoContext*);
  int (*status)(CairoContext*);
  const char* (*status_to_string)(int status);
  void (*save)(CairoContext*);
  void (*restore)(CairoContext*);
  void (*scale)(CairoContext*, double x, double y);
  void (*translate)(CairoContext*, double x, double y);
  void (*rotate)(CairoContext*, double radians);
  void (*set_source_rgba)(CairoContext*, double red, double green, double blue, double alpha);
  void (*set_line_width)(CairoContext*, double width);
  void (*set_line_join)(CairoContext*, int join);
  void (*set_dash)(CairoContext*, const double* dashes, int count, double offset);
  void (*new_path)(CairoContext*);
  void (*move_to)(CairoContext*, double x, double y);
  void (*line_to)(CairoContext*, double x, double y);
  void (*arc)(CairoContext*, double x, double y, double radius, double from, double to);
  void (*close_path)(CairoContext*);
  void (*paint)(CairoContext*);
  void (*fill_preserve)(CairoContext*);
  void (*stroke)(CairoContext*);
  void (*select_font_face)(CairoContext*, const char* family, int slant, int weight);
  void (*set_font_size)(CairoContext*, double size);
  void (*text_extents)(CairoContext*, const char* text, CairoTextExtents*);
  void (*show_text)(CairoContext*, const char* text);
};

// Unavailable, with the loader's reason and the package to install, where it cannot be had.
absl::StatusOr<std::unique_ptr<CairoLibrary>> OpenCairo(const char* library);

}  // namespace gpumem::plots

#endif  // GPUMEM_PLANNER_CHARTS_CAIRO_LIBRARY_H_
