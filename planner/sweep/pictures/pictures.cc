// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/sweep/pictures/pictures.h"

#include <span>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/format.h"
#include "planner/sweep/digest.h"
#include "web/category_colors.h"

namespace gpumem::plan {
namespace {

using plots::Color;
using plots::PaletteColor;

constexpr Color kGrey{150, 150, 150}, kPaleGrey{200, 200, 200}, kDarkGrey{95, 95, 95};

constexpr size_t kMaxNamed = 30;  // of more configurations no picture has room for the values

struct NamedColor {
  const char* name;
  Color color;
};

// A name that no table has gets a colour of the palette that depends on nothing but the name.
Color FromNameOnly(const std::string& name) {
  uint32_t hash = 2166136261;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619;
  return PaletteColor(8 + hash % 8);
}

Color FindColor(std::span<const NamedColor> table, const std::string& name) {
  for (const NamedColor& named : table) {
    if (name == named.name) return named.color;
  }
  return FromNameOnly(name);
}

}  // namespace

Color MemoryTypeColor(const std::string& name) {
  static const NamedColor kTable[] = {
      {"per_sample_gradient", PaletteColor(14)}, {"allocator_overhead", kPaleGrey}, {"context", kDarkGrey}};
  for (const auto& [category, place] : kCategoryFills) {
    if (name == CategoryName(category)) return PaletteColor(place);
  }
  return FindColor(kTable, name);
}

Color ComponentColor(const std::string& name) {
  static const NamedColor kTable[] = {{"attention", PaletteColor(0)},
                                      {"mlp", PaletteColor(1)},
                                      {"embedding", PaletteColor(2)},
                                      {"norm", PaletteColor(3)},
                                      {"lora", PaletteColor(5)},
                                      {"head", PaletteColor(4)},
                                      {"conv", PaletteColor(6)},
                                      {"linear", PaletteColor(7)},
                                      {"block", PaletteColor(8)},
                                      {"root", PaletteColor(9)},
                                      {"nonlinearity", PaletteColor(10)},
                                      {"optimizer", PaletteColor(11)},
                                      {"pooling", PaletteColor(12)},
                                      {"loss", PaletteColor(13)},
                                      {"workspace", PaletteColor(14)},
                                      {"input", PaletteColor(15)},
                                      {"rotary", PaletteColor(16)},
                                      {"dropout", PaletteColor(17)},
                                      {"kv_cache", PaletteColor(18)},
                                      {"communication", PaletteColor(19)},
                                      {"graph_pool", PaletteColor(20)},
                                      {"library", PaletteColor(21)},
                                      {"other", kGrey}};
  return FindColor(kTable, name);
}

Color OperationColor(const std::string& name) {
  static const NamedColor kTable[] = {{"forward", PaletteColor(0)},
                                      {"backward", PaletteColor(1)},
                                      {"optimizer", PaletteColor(2)},
                                      {"other", kPaleGrey}};
  return FindColor(kTable, name);
}

Color StateColor(RowState state) {
  switch (state) {
    case RowState::kFits:
      return PaletteColor(2);
    case RowState::kOutOfMemory:
      return plots::kAlarm;
    case RowState::kFailed:
      return kDarkGrey;
    case RowState::kTimedOut:
      return PaletteColor(1);
    case RowState::kSpins:
      return PaletteColor(3);
    case RowState::kNoCuda:
      return kPaleGrey;
  }
  return kGrey;
}

std::string SubtitleOf(const SweepAnswer& answer) {
  std::vector<std::string> parts;
  parts.push_back(answer.simulated ? "Simulated, no GPU used" : "Measured on a GPU");
  if (!answer.device.empty())
    parts.push_back(absl::StrCat(answer.device, answer.capacity > 0 ? ", " : "",
                                 answer.capacity > 0 ? FormatBytes(answer.capacity) : ""));
  if (!answer.steps.empty()) parts.push_back(absl::StrCat("steps: ", answer.steps));
  if (!answer.command.empty()) parts.push_back(absl::StrJoin(answer.command, " "));
  return absl::StrJoin(parts, "  |  ");
}

std::optional<plots::Limit> CapacityLimit(const SweepAnswer& answer) {
  if (answer.capacity == 0) return std::nullopt;
  return plots::Limit{static_cast<double>(answer.capacity), absl::StrCat("capacity ", FormatBytes(answer.capacity))};
}

plots::BarChart ByConfiguration(const SweepAnswer& answer) {
  plots::BarChart chart;
  const std::vector<std::string> axes = VariedAxes(answer.rows);
  const bool numbers = answer.rows.size() > kMaxNamed;
  chart.category_title = numbers ? "number of the configuration, as in the CSV file" : absl::StrJoin(axes, " · ");
  for (const SweepRow& row : answer.rows) {
    chart.categories.push_back(numbers ? absl::StrCat(row.number) : ShortConfiguration(row, axes));
    chart.alarms.push_back(row.state != RowState::kFits);
  }
  return chart;
}

std::string RowTitle(const SweepRow& row) { return absl::StrCat("#", row.number, ": ", ConfigurationText(row.values)); }

}  // namespace gpumem::plan
