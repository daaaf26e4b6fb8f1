// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What charts with axes share: scales, grids, labels that keep apart, legends. Each function draws and says how much
// room it took. For the charts of this folder.

#ifndef GPUMEM_PLANNER_CHARTS_AXES_H_
#define GPUMEM_PLANNER_CHARTS_AXES_H_

#include <string>
#include <vector>

#include "planner/charts/canvas.h"
#include "planner/charts/charts.h"
#include "planner/charts/ticks.h"

namespace gpumem::plots {

// From values to points of the picture.
struct AxisScale {
  double low = 0, high = 1;  // values
  double from = 0, to = 1;   // points
  double At(double value) const { return from + (value - low) / (high - low) * (to - from); }
};

// `box` without some of its sides.
Box Inset(const Box& box, double left, double top, double right, double bottom);

// From 0 to a little more than `most` (1 where that is not a positive number), or the limit where it is near.
struct ValueAxis {
  std::vector<Tick> ticks;
  double high = 1;
};
ValueAxis AxisFromZero(double most, const std::optional<Limit>& limit, Unit unit, size_t count);

// Width of the widest label.
double WidestLabel(const std::vector<Tick>& ticks);

// Lines across `inner` with their labels left of it.
void DrawRowGrid(const std::vector<Tick>& ticks, const AxisScale& scale, const Box& inner, Canvas* canvas);
// Lines down `inner` with their labels below it; labels that would touch are left out.
void DrawColumnGrid(const std::vector<Tick>& ticks, const AxisScale& scale, const Box& inner, bool lines,
                    Canvas* canvas);

// How much is to be left free above `inner` for a limit past the end of a scale that ends at `high`.
double RoomForLimit(const std::optional<Limit>& limit, double high);

// The limit as a dashed line, across or down; or, past the end of the scale, a remark above the corner.
void DrawLimit(const Limit& limit, const AxisScale& scale, const Box& inner, bool down, Canvas* canvas);

// Labels of categories below the axis: level where they fit, else slanting, else only every so many.
struct CategoryLabels {
  std::vector<std::string> texts;  // as they are shown; "" = left out
  bool slanting = false;
  double height = 0;
};
// `left_room`: from the middle of the first category to the edge that no slanting label may cross.
CategoryLabels LayOutCategories(const std::vector<std::string>& labels, double slot, double most_height,
                                double left_room);

// A few rows of coloured squares and names at the top of `box`. Returns the height; 0 where no entry has a name.
double DrawLegend(const std::vector<LegendEntry>& entries, const Box& box, Canvas* canvas);

// Title of an axis below `box`'s middle. Returns its height.
void DrawAxisTitle(const std::string& title, double center, double bottom, double room, Canvas* canvas);

// Words over lines: on a patch of paper that keeps them readable.
void DrawTextOnPaper(Point at, const std::string& text, const TextLook& look, Canvas* canvas);

void DrawNoData(const Box& box, Canvas* canvas);

}  // namespace gpumem::plots

#endif  // GPUMEM_PLANNER_CHARTS_AXES_H_
