// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "planner/sweep/digest.h"
#include "planner/sweep/pictures/picture_parts.h"
#include "planner/sweep/pictures/pictures.h"
#include "planner/sweep/words.h"

namespace gpumem::plan {
namespace {

using plots::BarChart;
using plots::Panel;

constexpr size_t kMaxOperations = 10;
constexpr double kOperationsHeight = 440;

// One series an operation; the set-up of the model is not an operation, so "other" is left out where it is nothing.
std::vector<plots::BarSeries> SeriesOf(const std::vector<std::vector<PartBytes>>& operations) {
  std::vector<plots::BarSeries> all;
  for (const PartBytes& operation : Operations(SweepRow()))
    all.push_back({StageTitleOf(operation.name, SweepLanguage::kEnglish), OperationColor(operation.name), {}});
  bool any_other = false;
  for (const std::vector<PartBytes>& each : operations) {
    for (size_t i = 0; i < all.size(); ++i) all[i].values.push_back(static_cast<double>(each[i].bytes));
    any_other = any_other || each.back().bytes > 0;
  }
  if (!any_other) all.pop_back();
  return all;
}

Panel ComponentsPanel(const SweepRow& row) {
  BarChart chart{.stacked = true, .horizontal = true, .totals = true};
  std::vector<std::vector<PartBytes>> operations;
  for (size_t i = 0; i < std::min(row.components.size(), kMaxOperations); ++i) {
    chart.categories.push_back(ComponentTitle(row.components[i].name, SweepLanguage::kEnglish));
    operations.push_back(Operations(row.components[i].allocated));
  }
  chart.series = SeriesOf(operations);
  return {.title = "By component", .note = RowTitle(row), .chart = std::move(chart)};
}

Panel ConfigurationsPanel(const SweepAnswer& answer) {
  BarChart chart = ByConfiguration(answer);
  chart.stacked = true;
  std::vector<std::vector<PartBytes>> operations;
  for (const SweepRow& row : answer.rows) operations.push_back(Operations(row));
  chart.series = SeriesOf(operations);
  return {.title = "By configuration", .note = "", .chart = std::move(chart)};
}

}  // namespace

plots::Figure OperationsFigure(const SweepAnswer& answer) {
  plots::Figure figure;
  figure.title = "What forward, backward and optimizer allocate";
  figure.subtitle = SubtitleOf(answer);
  const SweepRow* row = RowToExplain(answer.rows);
  figure.rows.push_back({{ComponentsPanel(row == nullptr ? SweepRow() : *row)}, kOperationsHeight});
  figure.rows.push_back({{ConfigurationsPanel(answer)}, kOperationsHeight});
  figure.notes.push_back("All bytes that were allocated in the run, freed or not: traffic, not what lives at once.");
  return figure;
}

}  // namespace gpumem::plan
