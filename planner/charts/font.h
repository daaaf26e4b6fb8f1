// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The font of all pictures: DejaVu Sans, which the program holds. The machine's own fonts are never asked: pictures
// look the same everywhere, also in a container without fonts. Not thread-safe.
//
//   UseFont(/*size=*/17, /*bold=*/true, context);
//   cairo_show_text(context, "8 GiB");

#ifndef GPUMEM_PLANNER_CHARTS_FONT_H_
#define GPUMEM_PLANNER_CHARTS_FONT_H_

#include <cairo.h>

namespace gpumem::plots {

// Sets face and size. Hints are off, so that a width grows evenly with the size and layout need not know the picture's
// scale. Errors stay in the context, as all of cairo's do.
void UseFont(double size, bool bold, cairo_t* context);

}  // namespace gpumem::plots

#endif  // GPUMEM_PLANNER_CHARTS_FONT_H_
