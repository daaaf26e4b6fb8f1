// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A picture as SVG text. Any text in it is escaped, so a hostile name stays text. Pure function.
//
//   const std::string svg = SvgText(canvas);   // "<svg xmlns=...>...</svg>\n"

#ifndef GPUMEM_PLANNER_CHARTS_SVG_H_
#define GPUMEM_PLANNER_CHARTS_SVG_H_

#include <string>

#include "planner/charts/canvas.h"

namespace gpumem::plots {

std::string SvgText(const Canvas& canvas);

}  // namespace gpumem::plots

#endif  // GPUMEM_PLANNER_CHARTS_SVG_H_
