// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "render/sparkline.h"

#include <algorithm>
#include <cmath>

namespace gpumem {
namespace {

constexpr const char* kBlocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr const char* kAscii[] = {" ", "_", ".", ":", "-", "=", "+", "*", "#"};
constexpr size_t kLevels = 8;

// `value` in steps of `top` / `steps`, rounded up so that something is never drawn as nothing.
size_t Level(uint64_t value, uint64_t top, size_t steps) {
  if (value == 0 || top == 0) return 0;
  const double share = static_cast<double>(std::min(value, top)) / static_cast<double>(top);
  return std::clamp<size_t>(static_cast<size_t>(std::ceil(share * static_cast<double>(steps))), 1, steps);
}

}  // namespace

uint64_t ValueOf(const MeasureValues& values, Measure measure) {
  switch (measure) {
    case Measure::kAllocated:
      return values.allocated;
    case Measure::kReserved:
      return values.reserved;
    case Measure::kOther:
      return values.other;
    case Measure::kTotal:
      return values.total;
  }
  return 0;
}

std::vector<uint64_t> Resample(const std::vector<TimelinePoint>& points, Measure measure, uint64_t from_ns,
                               uint64_t to_ns, size_t columns) {
  std::vector<uint64_t> values(columns, 0);
  if (columns == 0 || to_ns < from_ns) return values;
  std::vector<bool> seen(columns, false);
  const double step = static_cast<double>(to_ns - from_ns) / static_cast<double>(columns);
  for (const TimelinePoint& point : points) {
    if (point.time_ns < from_ns || point.time_ns > to_ns) continue;
    const double place = step > 0 ? static_cast<double>(point.time_ns - from_ns) / step : 0;
    const size_t column = std::min(static_cast<size_t>(place), columns - 1);
    values[column] = std::max(values[column], ValueOf(point.max, measure));
    seen[column] = true;
  }
  for (size_t i = 1; i < columns; ++i) {
    if (!seen[i]) values[i] = values[i - 1];
  }
  return values;
}

std::string Sparkline(const std::vector<uint64_t>& values, uint64_t top, bool utf8) {
  std::string line;
  for (const uint64_t value : values) line += (utf8 ? kBlocks : kAscii)[Level(value, top, kLevels)];
  return line;
}

std::vector<std::string> Chart(const std::vector<uint64_t>& values, uint64_t top, size_t rows, bool utf8) {
  std::vector<std::string> lines(rows);
  for (const uint64_t value : values) {
    const size_t height = Level(value, top, rows * kLevels);
    for (size_t row = 0; row < rows; ++row) {
      const size_t below = (rows - 1 - row) * kLevels;
      const size_t level = height <= below ? 0 : std::min(height - below, kLevels);
      if (utf8) {
        lines[row] += kBlocks[level];
      } else {
        lines[row] += level == 0 ? " " : level <= kLevels / 2 ? "." : "#";
      }
    }
  }
  return lines;
}

}  // namespace gpumem
