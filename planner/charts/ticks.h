// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Numbers on an axis: round steps, and words for them. Pure functions; ends that are not finite count as 0.
//
//   NiceTicks(0, 13.1 * (1u << 30), 6, Unit::kBytes)   // 0, 2, 4, ... 14 GiB

#ifndef GPUMEM_PLANNER_CHARTS_TICKS_H_
#define GPUMEM_PLANNER_CHARTS_TICKS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gpumem::plots {

enum class Unit : uint8_t { kNumber, kBytes, kSeconds };

struct Tick {
  double value = 0;
  std::string label;
};

// From at or below `low` to at or above `high` in steps of 1, 2, 2.5 or 5 times a power of ten, of the unit that fits
// (GiB, MiB; ms, s, min). At least two of them, and about `most`.
std::vector<Tick> NiceTicks(double low, double high, size_t most, Unit unit);

// A value beside its mark: "12.3 GiB", "1.5 min", "4096". Three significant digits.
std::string ShortLabel(double value, Unit unit);

}  // namespace gpumem::plots

#endif  // GPUMEM_PLANNER_CHARTS_TICKS_H_
