// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/leaks/replacement.h"

#include <algorithm>
#include <cmath>

namespace gpumem {
namespace {

// No value is further from the line than this share of the growth.
constexpr double kMaxDeviation = 0.05;
// Larger by steps of a block's rounding (512 bytes), of which there are more than a few.
constexpr int64_t kLeastGrowth = 8 * 512;

}  // namespace

bool GrowsByReplacement(const std::vector<int64_t>& bytes, const std::vector<int64_t>& blocks) {
  if (bytes.size() < kLeastReplacements || blocks.size() != bytes.size() || blocks.front() <= 0) return false;
  const int64_t grown = bytes.back() - bytes.front();
  if (grown < kLeastGrowth || !std::is_sorted(bytes.begin(), bytes.end())) return false;
  if (std::any_of(blocks.begin(), blocks.end(), [&](int64_t count) { return count != blocks.front(); })) return false;
  const double slope = static_cast<double>(grown) / static_cast<double>(bytes.size() - 1);
  for (size_t i = 0; i < bytes.size(); ++i) {
    const double expected = static_cast<double>(bytes.front()) + slope * static_cast<double>(i);
    if (std::abs(static_cast<double>(bytes[i]) - expected) > kMaxDeviation * static_cast<double>(grown)) return false;
  }
  return true;
}

}  // namespace gpumem
