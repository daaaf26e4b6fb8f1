// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/charts/plots/plots.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "base/format.h"

namespace gpumem::plan {
namespace {

constexpr size_t kMostPoints = 1600;  // across: more than a picture has columns
constexpr size_t kSurvivors = 8;
constexpr plots::Color kReserved{61, 67, 77};

// The rule of the page (report_page/trace.js).
bool TellsTime(const PlotTrace& trace, const std::vector<TimeRow>& rows) {
  if (rows.size() < 3) return true;
  const auto at = [&](size_t row) { return static_cast<double>(trace.loaded->input.Since(rows[row].time_ns)); };
  return at(rows.size() * 95 / 100) - at(rows.size() * 5 / 100) > 0.3 * at(rows.size() - 1);
}

class Across {
 public:
  Across(const PlotRequest& request, const PlotTrace& trace, const PlotDevice& device)
      : Across(request.events.value_or(!TellsTime(trace, device.rows())), trace) {}
  Across(bool events, const PlotTrace& trace) : events_(events), trace_(trace) {}

  plots::Unit unit() const { return events_ ? plots::Unit::kNumber : plots::Unit::kSeconds; }
  std::string title() const { return events_ ? "events" : ""; }
  double Of(uint64_t event, uint64_t time_ns) const {
    return events_ ? static_cast<double>(event) : static_cast<double>(trace_.loaded->input.Since(time_ns)) / 1e9;
  }
  double Of(const TimeRow& row) const { return Of(row.event, row.time_ns); }

 private:
  bool events_;
  const PlotTrace& trace_;
};

// Rows that are drawn: of each column of the picture the highest, so that no peak is lost.
std::vector<size_t> Columns(const PlotDevice& device, const Across& across) {
  const std::vector<TimeRow>& rows = device.rows();
  const double first = across.Of(rows.front()), width = (across.Of(rows.back()) - first) / kMostPoints;
  const auto height = [&](size_t row) { return rows[row].values.allocated + rows[row].values.other; };
  std::vector<size_t> chosen;
  double end = first;
  for (size_t row = 0; row < rows.size(); ++row) {
    if (!chosen.empty() && across.Of(rows[row]) < end) {
      if (height(row) > height(chosen.back())) chosen.back() = row;
      continue;
    }
    chosen.push_back(row);
    end = across.Of(rows[row]) + width;
  }
  if (chosen.back() != rows.size() - 1) chosen.push_back(rows.size() - 1);
  return chosen;
}

plots::LineSeries Stepped(const std::string& name, plots::Color color) {
  plots::LineSeries series{name, color};
  series.marks = false;
  series.stepped = true;
  return series;
}

// How much a layer changes: the ground of a stack is what changes least.
double Steadiness(const PlotLayer& layer) {
  const double highest = *std::max_element(layer.bytes.begin(), layer.bytes.end());
  return highest == 0 ? 0 : std::accumulate(layer.bytes.begin(), layer.bytes.end(), 0.0) / highest;
}

}  // namespace

plots::Panel TimelinePanel(const PlotRequest& request, const PlotTrace& trace, PlotDevice* device) {
  const Across across(request, trace, *device);
  const std::vector<size_t> columns = Columns(*device, across);
  plots::LineChart chart{.x_title = across.title(), .x_unit = across.unit()};
  std::vector<PlotLayer> layers = device->TakeLayers(request.by);
  std::stable_sort(layers.begin(), layers.end(),
                   [](const PlotLayer& a, const PlotLayer& b) { return Steadiness(a) > Steadiness(b); });
  std::vector<double> sums(device->rows().size());
  for (const PlotLayer& layer : layers) {
    plots::LineSeries series = Stepped(layer.name, layer.color);
    series.area = series.solid = true;
    series.line = false;
    for (size_t row = 0; row < sums.size(); ++row) sums[row] += layer.bytes[row];
    for (const size_t row : columns) series.points.push_back({across.Of(device->rows()[row]), sums[row]});
    chart.series.push_back(std::move(series));
  }
  std::reverse(chart.series.begin(), chart.series.end());  // sums, highest first
  plots::LineSeries reserved = Stepped("reserved + CUDA", kReserved);
  for (const size_t row : columns)
    reserved.points.push_back({across.Of(device->rows()[row]), static_cast<double>(device->rows()[row].most_total)});
  chart.series.push_back(std::move(reserved));
  const DeviceAnalysis& analysis = device->analysis();
  if (analysis.capacity > 0)
    chart.limit =
        plots::Limit{static_cast<double>(analysis.capacity), absl::StrCat("GPU ", FormatBytes(analysis.capacity))};
  const TimeRow& peak = device->rows()[device->peak_row()];
  const uint64_t bytes = peak.values.allocated + peak.values.other;
  const bool has_both = peak.values.allocated != 0 && peak.values.other != 0;
  const std::string text = has_both ? absl::StrCat(FormatBytes(peak.values.allocated), " allocated + ",
                                                   FormatBytes(peak.values.other), " beside PyTorch")
                                    : FormatBytes(bytes);
  chart.callouts.push_back({{across.Of(peak), static_cast<double>(bytes)}, absl::StrCat("peak ", text)});
  return {.chart = std::move(chart)};
}

absl::StatusOr<plots::Panel> RunsPanel(const PlotRequest& request, const std::vector<PlotTrace>& traces,
                                       const std::vector<std::string>& names) {
  std::vector<PlotDevice> devices;
  bool events = false;
  for (const PlotTrace& trace : traces) {
    const PlotDevice& device = devices.emplace_back(trace, request.device);
    if (!device.exists()) return absl::NotFoundError(absl::StrCat("nothing was allocated on this GPU in ", trace.name));
    events |= !TellsTime(trace, device.rows());
  }
  plots::LineChart chart;
  const uint64_t capacity = devices.front().analysis().capacity;
  for (size_t i = 0; i < traces.size(); ++i) {
    const PlotDevice& device = devices[i];
    const Across across(request.events.value_or(events), traces[i]);
    chart.x_title = across.title();
    chart.x_unit = across.unit();
    plots::LineSeries series = Stepped(names[i], plots::PaletteColor(i));
    series.dashed = i % 2 == 1;  // where two curves lie on one another both are seen
    for (const size_t row : Columns(device, across)) {
      const TimeRow& at = device.rows()[row];
      series.points.push_back({across.Of(at), static_cast<double>(at.values.allocated + at.values.other)});
    }
    const TimeRow& peak = device.rows()[device.peak_row()];
    const uint64_t bytes = peak.values.allocated + peak.values.other;
    chart.callouts.push_back({{across.Of(peak), static_cast<double>(bytes)}, FormatBytes(bytes), series.color});
    chart.series.push_back(std::move(series));
  }
  const bool is_one_size = std::all_of(
      devices.begin(), devices.end(), [&](const PlotDevice& device) { return device.analysis().capacity == capacity; });
  if (capacity > 0 && is_one_size)
    chart.limit = plots::Limit{static_cast<double>(capacity), absl::StrCat("GPU ", FormatBytes(capacity))};
  return plots::Panel{.chart = std::move(chart)};
}

absl::StatusOr<plots::Panel> StepsPanel(const PlotTrace& trace) {
  if (trace.attribution->steps.empty()) return absl::NotFoundError("this trace has no training steps");
  plots::LineChart chart{.x_title = "step", .x_unit = plots::Unit::kNumber};
  plots::LineSeries peak{"peak", plots::PaletteColor(0)}, end{"end", plots::PaletteColor(1)};
  peak.marks = end.marks = trace.attribution->steps.size() <= 50;
  for (const AttributedStep& each : trace.attribution->steps) {
    const auto number = static_cast<double>(each.step.number);
    peak.points.push_back({number, static_cast<double>(each.step.peak.values.allocated)});
    end.points.push_back({number, static_cast<double>(each.step.end.values.allocated)});
  }
  chart.series = {std::move(peak), std::move(end)};
  return plots::Panel{.chart = std::move(chart)};
}

absl::StatusOr<plots::Panel> SurvivorsPanel(const PlotRequest& request, const PlotTrace& trace,
                                            const PlotDevice& device) {
  const Across across(request, trace, device);
  struct Curve {
    uint64_t bytes = 0;
    plots::LineSeries series;
  };
  std::map<std::string, Curve> curves;
  const double start = across.Of(device.rows().front());
  for (const PageLife& row : trace.pass->blocks().lives()) {
    if (!row.life.kept || row.device != device.analysis().device) continue;
    std::string name = trace.pass->KeyText(PageLayer::kLine, row.line);
    Curve& curve = curves[name.empty() ? "not known" : name];
    if (curve.bytes == 0) curve.series.points.push_back({start, 0});
    curve.bytes += row.life.size;
    curve.series.points.push_back({across.Of(row.life.born, row.life.time_ns), static_cast<double>(curve.bytes)});
  }
  if (curves.empty()) return absl::NotFoundError("nothing was alive at the end");
  std::vector<std::pair<std::string, Curve>> highest(curves.begin(), curves.end());
  std::stable_sort(highest.begin(), highest.end(),
                   [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  plots::LineChart chart{.x_title = across.title(), .x_unit = across.unit()};
  for (size_t i = 0; i < std::min(highest.size(), kSurvivors); ++i) {
    auto& [name, curve] = highest[i];
    plots::LineSeries series = Stepped(name, plots::PaletteColor(i));
    series.points = std::move(curve.series.points);
    series.points.push_back({across.Of(device.rows().back()), static_cast<double>(curve.bytes)});
    chart.series.push_back(std::move(series));
  }
  const size_t left_out = highest.size() - chart.series.size();
  return plots::Panel{.note = left_out == 0 ? "" : absl::StrCat(left_out, " lines with less are left out"),
                      .chart = std::move(chart)};
}

plots::Panel FragmentationPanel(const PlotRequest& request, const PlotTrace& trace, const PlotDevice& device) {
  const Across across(request, trace, device);
  plots::LineChart chart{.x_title = across.title(), .x_unit = across.unit()};
  plots::LineSeries reserved = Stepped("reserved, not in use", plots::PaletteColor(1)),
                    used = Stepped("in use", plots::PaletteColor(0));
  reserved.area = reserved.solid = used.area = used.solid = true;
  reserved.line = used.line = false;
  for (const size_t row : Columns(device, across)) {
    const TimeRow& at = device.rows()[row];
    reserved.points.push_back({across.Of(at), static_cast<double>(at.values.reserved)});
    used.points.push_back({across.Of(at), static_cast<double>(at.values.allocated)});
  }
  chart.series = {std::move(reserved), std::move(used)};
  return {.chart = std::move(chart)};
}

plots::Panel PeakPanel(const PlotRequest& request, PlotDevice* device) {
  const size_t row = device->peak_row();
  std::vector<PlotLayer> layers = device->TakeLayers(request.by);
  std::erase_if(layers, [&](const PlotLayer& layer) { return layer.bytes[row] == 0; });
  std::stable_sort(layers.begin(), layers.end(), [&](const PlotLayer& a, const PlotLayer& b) {
    return a.is_rest != b.is_rest ? b.is_rest : a.bytes[row] > b.bytes[row];
  });
  plots::BarChart chart{.horizontal = true, .totals = true};
  // Categories have the colours that they have everywhere: a series each, of one bar.
  chart.stacked = request.by == PageLayer::kCategory;
  chart.series.resize(chart.stacked ? layers.size() : 1, {"", plots::PaletteColor(0)});
  for (size_t i = 0; i < layers.size(); ++i) {
    chart.categories.push_back(layers[i].name);
    plots::BarSeries& bars = chart.series[chart.stacked ? i : 0];
    if (chart.stacked) bars.color = layers[i].color;
    bars.values.resize(i);
    bars.values.push_back(layers[i].bytes[row]);
  }
  return {.chart = std::move(chart)};
}

plots::Panel TreemapPanel(const PlotRequest& request, const PlotDevice& device) {
  const PageLayer inside = request.by == PageLayer::kLine ? PageLayer::kModule : PageLayer::kLine;
  std::map<std::string, std::map<std::string, double>> groups;
  uint64_t named = 0;
  for (const PageLife* const row : device.AliveAt(device.peak().event_index)) {
    groups[device.KeyText(request.by, *row)][device.KeyText(inside, *row)] += static_cast<double>(row->life.size);
    named += row->life.size;
  }
  plots::Treemap chart;
  for (const auto& [name, parts] : groups) {
    plots::TreemapGroup group{name.empty() ? "not known" : name, device.ColorOf(request.by, name, chart.groups.size())};
    for (const auto& [part, bytes] : parts) group.parts.push_back({part, bytes});
    chart.groups.push_back(std::move(group));
  }
  const TimeRow& peak = device.rows()[device.peak_row()];
  const uint64_t held = peak.values.allocated + peak.values.other;
  std::string note;
  if (held > named)
    note = absl::StrCat(FormatBytes(held - named), " in smaller blocks, or from before the recording, are not drawn");
  return {.note = std::move(note), .chart = std::move(chart)};
}

namespace {

constexpr size_t kMostNames = 12;  // of a map of addresses

struct LegendBytes {
  std::string name;
  plots::Color color;
  uint64_t bytes = 0;
};

LegendBytes& PlaceOfName(const std::string& name, std::vector<LegendBytes>* names) {
  const auto found =
      std::find_if(names->begin(), names->end(), [&](const LegendBytes& each) { return each.name == name; });
  return found == names->end() ? names->emplace_back(LegendBytes{name, {}}) : *found;
}

}  // namespace

plots::Panel AddressesPanel(const PlotRequest& request, const PlotTrace& trace, const PlotDevice& device) {
  const uint64_t event = device.peak().event_index;
  std::vector<const PageLife*> segments;
  for (const PageLife& row : trace.pass->segments().lives()) {
    if (row.device == device.analysis().device && row.life.born <= event && event < row.life.end)
      segments.push_back(&row);
  }
  std::stable_sort(segments.begin(), segments.end(),
                   [](const PageLife* a, const PageLife* b) { return a->life.size > b->life.size; });
  std::map<uint64_t, const PageLife*> blocks;  // by address
  for (const PageLife* const row : device.AliveAt(event)) blocks[row->life.address] = row;
  plots::SpanChart chart;
  std::vector<LegendBytes> names;
  for (const PageLife* const segment : segments) {
    const uint64_t from = segment->life.address, size = segment->life.size;
    plots::SpanRow row{.label = FormatBytes(size), .length = static_cast<double>(size)};
    uint64_t used = 0;
    for (auto block = blocks.lower_bound(from); block != blocks.end() && block->first < from + size; ++block) {
      const double start = static_cast<double>(block->first - from);
      const std::string name = device.KeyText(request.by, *block->second);
      LegendBytes& of = PlaceOfName(name.empty() ? "not known" : name, &names);
      of.color = device.ColorOf(request.by, name, static_cast<size_t>(&of - names.data()));
      of.bytes += block->second->life.size;
      row.spans.push_back({start, start + static_cast<double>(block->second->life.size), of.color});
      used += block->second->life.size;
    }
    const bool pinned = row.spans.size() == 1 && used < size / 2;
    if (pinned) row.spans.front().alarm = true;
    if (used < size) row.note = absl::StrCat(pinned ? "pinned, " : "", FormatBytes(size - used), " free");
    chart.rows.push_back(std::move(row));
  }
  std::stable_sort(names.begin(), names.end(),
                   [](const LegendBytes& a, const LegendBytes& b) { return a.bytes > b.bytes; });
  for (size_t i = 0; i < std::min(names.size(), kMostNames); ++i)
    chart.legend.push_back({names[i].name, names[i].color});
  return {.note = "grey is free; a red frame is the only block of its segment", .chart = std::move(chart)};
}

}  // namespace gpumem::plan
