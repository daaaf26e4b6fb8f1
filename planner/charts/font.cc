// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/charts/font.h"

#include <cairo-ft.h>

extern "C" {
extern const FT_Byte gpumem_font_regular_begin[], gpumem_font_regular_end[];
extern const FT_Byte gpumem_font_bold_begin[], gpumem_font_bold_end[];
}

namespace gpumem::plots {
namespace {

// Kept for the program's life. Null where memory is out; cairo then takes a font of its own.
cairo_font_face_t* Load(const FT_Byte* begin, const FT_Byte* end) {
  static FT_Library library = nullptr;
  FT_Face face = nullptr;
  if (library == nullptr && FT_Init_FreeType(&library) != 0) return nullptr;
  if (FT_New_Memory_Face(library, begin, end - begin, 0, &face) != 0) return nullptr;
  return cairo_ft_font_face_create_for_ft_face(face, FT_LOAD_DEFAULT);
}

}  // namespace

void UseFont(double size, bool bold, cairo_t* context) {
  static cairo_font_face_t* const regular_face = Load(gpumem_font_regular_begin, gpumem_font_regular_end);
  static cairo_font_face_t* const bold_face = Load(gpumem_font_bold_begin, gpumem_font_bold_end);
  cairo_font_options_t* const options = cairo_font_options_create();
  cairo_font_options_set_hint_style(options, CAIRO_HINT_STYLE_NONE);
  cairo_font_options_set_hint_metrics(options, CAIRO_HINT_METRICS_OFF);
  cairo_set_font_options(context, options);
  cairo_font_options_destroy(options);
  cairo_set_font_face(context, bold ? bold_face : regular_face);
  cairo_set_font_size(context, size);
}

}  // namespace gpumem::plots
