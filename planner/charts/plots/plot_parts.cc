// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/charts/plots/plot_parts.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "answers/report/verdict.h"
#include "web/category_colors.h"

namespace gpumem::plan {
namespace {

constexpr plots::Color kRest{169, 169, 169};

}  // namespace

PlotDevice::PlotDevice(const PlotTrace& trace, int device) : trace_(trace) {
  if (device < 0) {
    analysis_ = LargestDevice(trace.loaded->analysis);
  } else {
    for (const DeviceAnalysis& each : trace.loaded->analysis.devices)
      analysis_ = each.device == device ? &each : analysis_;
  }
  if (analysis_ == nullptr) return;
  for (PageDevice& each : trace.pass->devices()) page_ = each.device == analysis_->device ? &each : page_;
}

size_t PlotDevice::peak_row() const {
  return std::min(page_->rows.At(peak().event_index), page_->rows.rows().size() - 1);
}

std::string PlotDevice::KeyText(PageLayer by, const PageLife& life) const {
  const uint32_t keys[] = {static_cast<uint32_t>(life.category), life.module, life.line,
                           trace_.pass->StreamNumber(life.life.stream)};
  return trace_.pass->KeyText(by, keys[static_cast<size_t>(by)]);
}

plots::Color PlotDevice::ColorOf(PageLayer by, const std::string& name, size_t place) const {
  if (by == PageLayer::kCategory) {
    if (const std::optional<uint32_t> color = CategoryColor(name)) {
      return {static_cast<uint8_t>(*color >> 16), static_cast<uint8_t>(*color >> 8), static_cast<uint8_t>(*color)};
    }
  }
  return plots::PaletteColor(place);
}

std::vector<PlotLayer> PlotDevice::TakeLayers(PageLayer by) {
  const size_t count = rows().size();
  std::vector<PlotLayer> layers;
  std::vector<double> rest(count);
  for (size_t row = 0; row < count; ++row)
    rest[row] = static_cast<double>(rows()[row].values.allocated + rows()[row].values.other);
  for (const Layer& layer : page_->layers[static_cast<size_t>(by)].Take(kPlotLayers)) {
    const bool is_rest = layer.key == kOtherKeys;
    std::string name = is_rest ? absl::StrCat(layer.keys, " others") : trace_.pass->KeyText(by, layer.key);
    if (name.empty()) name = by == PageLayer::kModule ? "no module" : "not known";
    PlotLayer made{name, is_rest ? kRest : ColorOf(by, name, layers.size()), std::vector<double>(count), is_rest};
    double bytes = 0;
    size_t next = 0;
    for (size_t row = 0; row < count; ++row) {
      for (; next < layer.changes.size() && layer.changes[next].row == row; ++next)
        bytes += static_cast<double>(layer.changes[next].bytes);
      made.bytes[row] = bytes;
      rest[row] -= bytes;
    }
    layers.push_back(std::move(made));
  }
  if (std::any_of(rest.begin(), rest.end(), [](double bytes) { return bytes > 0; })) {
    for (double& bytes : rest) bytes = std::max(bytes, 0.0);
    layers.push_back({"before the recording or in a gap", kRest, std::move(rest), true});
  }
  return layers;
}

std::vector<const PageLife*> PlotDevice::AliveAt(uint64_t event) const {
  std::vector<const PageLife*> alive;
  for (const PageLife& row : trace_.pass->blocks().lives()) {
    if (row.device == analysis_->device && row.life.born <= event && event < row.life.end) alive.push_back(&row);
  }
  return alive;
}

std::vector<std::string> TellingParts(std::vector<std::string> names) {
  if (names.size() < 2) return names;
  constexpr char kBetweenWords[] = "./-_ ";
  const std::string& first = names.front();
  size_t begin = first.size(), end = first.size();
  for (const std::string& name : names) {
    size_t same = 0, same_at_end = 0;
    while (same < std::min(begin, name.size()) && name[same] == first[same]) ++same;
    while (same_at_end < std::min(end, name.size()) && name.rbegin()[same_at_end] == first.rbegin()[same_at_end])
      ++same_at_end;
    begin = same;
    end = same_at_end;
  }
  const size_t last = begin == 0 ? std::string::npos : first.find_last_of(kBetweenWords, begin - 1);
  begin = last == std::string::npos ? 0 : last + 1;
  const size_t next = first.find_first_of(kBetweenWords, first.size() - end);
  end = next == std::string::npos ? 0 : first.size() - next;
  if (std::any_of(names.begin(), names.end(), [&](const std::string& name) { return name.size() <= begin + end; }))
    return names;
  for (std::string& name : names) name = name.substr(begin, name.size() - begin - end);
  return names;
}

std::string PeakSentence(const PlotTrace& trace) {
  const Verdict verdict = MakeVerdict(trace.loaded->input);
  return verdict.problem.empty() ? verdict.peak : absl::StrCat(verdict.problem, ". ", verdict.peak);
}

}  // namespace gpumem::plan
