// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Figure: charts in rows under one title, laid out into a picture. Pure function.
//
//   Figure figure{.title = "Memory by batch size"};
//   figure.rows.push_back({{Panel{.title = "Peak", .chart = line_chart}}});
//   const Canvas canvas = DrawFigure(figure);

#ifndef GPUMEM_PLANNER_CHARTS_FIGURE_H_
#define GPUMEM_PLANNER_CHARTS_FIGURE_H_

#include <string>
#include <vector>

#include "planner/charts/charts.h"

namespace gpumem::plots {

struct Panel {
  std::string title{};
  std::string note{};  // below the title, small
  Chart chart{};
};

struct FigureRow {
  std::vector<Panel> panels{};  // side by side, equally wide
  double height = 400;
};

struct Figure {
  std::string title{};
  std::string subtitle{};  // may be long: wrapped into two lines
  std::vector<FigureRow> rows{};
  std::vector<std::string> notes{};  // at the foot
  double width = 1200;
};

Canvas DrawFigure(const Figure& figure);

}  // namespace gpumem::plots

#endif  // GPUMEM_PLANNER_CHARTS_FIGURE_H_
