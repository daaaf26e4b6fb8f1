// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/charts/plots/plot.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "answers/report/state.h"
#include "planner/charts/plots/plot_parts.h"
#include "planner/charts/plots/plots.h"

namespace gpumem::plan {
namespace {

constexpr size_t kMostBars = 24;

// "rank 0", "rank 1" where that tells them apart, as other answers call them; else names.
std::vector<std::string> RunLabels(const std::vector<PlotTrace>& traces) {
  std::vector<std::string> names;
  std::set<int> ranks;
  for (const PlotTrace& trace : traces) {
    const int rank = trace.loaded->analysis.process.rank;
    if (rank >= 0 && ranks.insert(rank).second) names.push_back(absl::StrCat("rank ", rank));
  }
  if (names.size() == traces.size()) return names;
  names.clear();
  for (const PlotTrace& trace : traces) names.push_back(trace.name);
  return TellingParts(std::move(names));
}

plots::Panel PeaksOf(const std::vector<PlotTrace>& traces, const PlotRequest& request) {
  plots::BarChart chart{.category_title = "trace", .stacked = true, .totals = true};
  std::map<std::string, plots::BarSeries> series;
  std::vector<std::string> order;
  chart.categories = RunLabels(traces);
  for (size_t i = 0; i < traces.size(); ++i) {
    PlotDevice device(traces[i], request.device);
    if (!device.exists()) continue;
    for (const PlotLayer& layer : device.TakeLayers(request.by)) {
      plots::BarSeries& bar = series[layer.name];
      if (bar.name.empty()) {
        bar = {layer.name, layer.color, std::vector<double>(traces.size())};
        order.push_back(layer.name);
      }
      bar.values[i] = layer.bytes[device.peak_row()];
    }
  }
  for (const std::string& name : order) {
    if (std::any_of(series[name].values.begin(), series[name].values.end(), [](double v) { return v > 0; }))
      chart.series.push_back(series[name]);
  }
  return {.chart = chart};
}

absl::StatusOr<plots::Panel> ModulesOf(const PlotTrace& trace) {
  const Attribution& attribution = *trace.attribution;
  std::vector<std::pair<uint64_t, std::string>> rows;
  for (size_t row = 1; row < attribution.modules.size() && row < attribution.module_peaks.size(); ++row) {
    if (attribution.module_peaks[row] > 0)
      rows.emplace_back(attribution.module_peaks[row], ModuleText(attribution.modules[row]));
  }
  if (rows.empty()) return absl::NotFoundError("no module allocated in this trace");
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  const size_t left_out = rows.size() - std::min(rows.size(), kMostBars);
  rows.resize(rows.size() - left_out);
  plots::BarChart chart{.category_title = "module", .horizontal = true, .totals = true};
  plots::BarSeries bars{"", plots::PaletteColor(0)};
  for (const auto& [bytes, name] : rows) {
    chart.categories.push_back(name);
    bars.values.push_back(static_cast<double>(bytes));
  }
  chart.series = {bars};
  return plots::Panel{.note = left_out == 0 ? "" : absl::StrCat(left_out, " smaller ones are left out"),
                      .chart = chart};
}

plots::Figure FigureOf(const std::string& title, const PlotTrace& trace, plots::Panel panel) {
  plots::Figure figure{.title = title, .subtitle = PeakSentence(trace)};
  figure.rows.push_back({{std::move(panel)}, 520});
  for (const Remark& remark : StateRemarks(trace.loaded->input)) figure.notes.push_back(remark.text);
  if (IsSimulated(trace.loaded->analysis)) figure.notes.emplace_back("simulated GPU: timings are not meaningful");
  return figure;
}

}  // namespace

const std::vector<PlotKindInfo>& PlotKinds() {
  static const auto* const kinds = new std::vector<PlotKindInfo>{
      {PlotKind::kTimeline, "timeline", "what was held over time, stacked; of several runs a curve each"},
      {PlotKind::kPeak, "peak", "what the peak is made of, as bars"},
      {PlotKind::kTreemap, "treemap", "the same as areas, with lines of code inside"},
      {PlotKind::kModules, "modules", "what each module holds at once"},
      {PlotKind::kSteps, "steps", "peak and end of each training step"},
      {PlotKind::kLeaks, "leaks", "what is alive at the end, by when it was allocated"},
      {PlotKind::kFragmentation, "fragmentation", "reserved and in use over time"},
      {PlotKind::kAddresses, "addresses", "segments and blocks at the peak"},
      {PlotKind::kComparison, "comparison", "the peaks of several traces side by side"},
  };
  return *kinds;
}

std::optional<PlotKind> PlotKindNamed(absl::string_view name) {
  for (const PlotKindInfo& each : PlotKinds()) {
    if (each.name == name) return each.kind;
  }
  return std::nullopt;
}

absl::StatusOr<plots::Figure> MakePlot(const PlotRequest& request, const std::vector<PlotTrace>& traces) {
  const PlotTrace& trace = traces.front();
  const std::string& name = trace.name;
  if (request.kind == PlotKind::kComparison) {
    plots::Figure figure = FigureOf(absl::StrCat("Peaks of ", traces.size(), traces.size() == 1 ? " trace" : " traces"),
                                    trace, PeaksOf(traces, request));
    figure.subtitle = absl::StrCat("What each held at its own highest moment, by ", PageLayerName(request.by));
    return figure;
  }
  if (request.kind == PlotKind::kTimeline && traces.size() > 1) {
    absl::StatusOr<plots::Panel> panel = RunsPanel(request, traces, RunLabels(traces));
    if (!panel.ok()) return panel.status();
    plots::Figure figure = FigureOf(absl::StrCat("Memory of ", traces.size(), " runs"), trace, *std::move(panel));
    figure.subtitle = "What each held, from its own beginning";
    return figure;
  }
  PlotDevice device(trace, request.device);
  if (!device.exists()) return absl::NotFoundError("nothing was allocated on this GPU");
  const std::string of = absl::StrCat(name, ", GPU ", device.analysis().device);
  absl::StatusOr<plots::Panel> panel = absl::NotFoundError("");
  std::string title;
  switch (request.kind) {
    case PlotKind::kTimeline:
      title = absl::StrCat("Memory of ", of);
      panel = TimelinePanel(request, trace, &device);
      break;
    case PlotKind::kPeak:
      title = absl::StrCat("Peak of ", of);
      panel = PeakPanel(request, &device);
      break;
    case PlotKind::kTreemap:
      title = absl::StrCat("Peak of ", of);
      panel = TreemapPanel(request, device);
      break;
    case PlotKind::kModules:
      title = absl::StrCat("Modules of ", name, ": most memory at once");
      panel = ModulesOf(trace);
      break;
    case PlotKind::kSteps:
      title = absl::StrCat("Steps of ", of);
      panel = StepsPanel(trace);
      break;
    case PlotKind::kLeaks:
      title = absl::StrCat("Alive at the end of ", of, ", by when it was allocated");
      panel = SurvivorsPanel(request, trace, device);
      break;
    case PlotKind::kFragmentation:
      title = absl::StrCat("Reserved and in use, ", of);
      panel = FragmentationPanel(request, trace, device);
      break;
    case PlotKind::kAddresses:
      title = absl::StrCat("Segments and blocks at the peak of ", of);
      panel = AddressesPanel(request, trace, device);
      break;
    case PlotKind::kComparison:
      break;
  }
  if (!panel.ok()) return panel.status();
  return FigureOf(title, trace, *std::move(panel));
}

}  // namespace gpumem::plan
