// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/charts/ticks.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace gpumem::plots {
namespace {

struct Scale {
  double size;
  const char* name;
};

constexpr Scale kByteScales[] = {{1, " B"},        {0x1p10, " KiB"}, {0x1p20, " MiB"}, {0x1p30, " GiB"},
                                 {0x1p40, " TiB"}, {0x1p50, " PiB"}, {0x1p60, " EiB"}};
constexpr Scale kTimeScales[] = {{1e-6, " us"}, {1e-3, " ms"}, {1, " s"}, {60, " min"}, {3600, " h"}};
constexpr Scale kNumberScales[] = {{1, ""}, {1e6, "M"}, {1e9, "G"}, {1e12, "T"}};

// The largest unit of which `value` has at least one.
Scale ScaleFor(double value, Unit unit) {
  const std::span<const Scale> scales = unit == Unit::kBytes     ? std::span<const Scale>(kByteScales)
                                        : unit == Unit::kSeconds ? std::span<const Scale>(kTimeScales)
                                                                 : std::span<const Scale>(kNumberScales);
  Scale found = unit == Unit::kSeconds && value == 0 ? Scale{1, " s"} : scales.front();
  for (const Scale& scale : scales) {
    if (std::abs(value) >= scale.size) found = scale;
  }
  return found;
}

double NiceStep(double span, size_t most) {
  const double raw = span / static_cast<double>(std::max<size_t>(most, 2) - 1);
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 2.5, 5.0}) {
    if (factor * power >= raw * 0.999) return factor * power;
  }
  return 10 * power;
}

double Finite(double value) { return std::isfinite(value) ? std::clamp(value, -1e30, 1e30) : 0; }

}  // namespace

std::vector<Tick> NiceTicks(double low, double high, size_t most, Unit unit) {
  low = Finite(low);
  high = Finite(high);
  if (high < low) std::swap(low, high);
  if (high == low) high = low + (low == 0 ? 1 : std::abs(low));
  const Scale scale = ScaleFor(std::max(std::abs(low), std::abs(high)), unit);
  double step = NiceStep((high - low) / scale.size, most);
  if (unit == Unit::kBytes && scale.size == 1) step = std::max(step, 1.0);  // there is no half byte
  const double first = std::floor(low / scale.size / step + 1e-9);
  const double last = std::max(first + 1, std::ceil(high / scale.size / step - 1e-9));
  std::vector<Tick> ticks;
  for (double i = first; i <= last && ticks.size() < 100; ++i) {
    const double value = i * step;
    ticks.push_back({value * scale.size, value == 0 ? "0" : absl::StrFormat("%.6g%s", value, scale.name)});
  }
  return ticks;
}

std::string ShortLabel(double value, Unit unit) {
  value = Finite(value);
  if (unit == Unit::kNumber && std::abs(value) < 1e6) return absl::StrFormat("%.6g", value);
  const Scale scale = ScaleFor(value, unit);
  const double shown = value / scale.size;
  const int decimals = shown == std::round(shown) || std::abs(shown) >= 100 ? 0 : std::abs(shown) >= 10 ? 1 : 2;
  return absl::StrCat(absl::StrFormat("%.*f", decimals, shown), scale.name);
}

}  // namespace gpumem::plots
