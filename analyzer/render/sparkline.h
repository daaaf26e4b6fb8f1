// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Curves out of characters: one line (Sparkline) or several rows with a scale (Chart). Block characters where the
// terminal shows UTF-8, else ASCII. Pure functions.

#ifndef GPUMEM_ANALYZER_RENDER_SPARKLINE_H_
#define GPUMEM_ANALYZER_RENDER_SPARKLINE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "replay/analysis.h"

namespace gpumem {

// The series in `columns` equal steps of time from `from_ns` to `to_ns`: each the largest value of the points inside
// it; a step without points keeps the value before it.
std::vector<uint64_t> Resample(const std::vector<TimelinePoint>& points, Measure measure, uint64_t from_ns,
                               uint64_t to_ns, size_t columns);

uint64_t ValueOf(const MeasureValues& values, Measure measure);

// One character a value, scaled from 0 to `top`. Zero is a blank, anything else at least the lowest mark.
std::string Sparkline(const std::vector<uint64_t>& values, uint64_t top, bool utf8);

// `rows` lines, topmost first, one character a value.
std::vector<std::string> Chart(const std::vector<uint64_t>& values, uint64_t top, size_t rows, bool utf8);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_RENDER_SPARKLINE_H_
