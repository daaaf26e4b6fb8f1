// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "base/mann_kendall.h"

#include <cmath>
#include <cstddef>
#include <map>

namespace gpumem {

double RisingConfidence(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  double concordant = 0;
  std::map<double, double> ties;
  for (size_t i = 0; i < values.size(); ++i) {
    ++ties[values[i]];
    for (size_t j = i + 1; j < values.size(); ++j)
      concordant += values[j] > values[i] ? 1 : values[j] < values[i] ? -1 : 0;
  }
  double variance = n * (n - 1) * (2 * n + 5);
  for (const auto& [value, count] : ties) variance -= count * (count - 1) * (2 * count + 5);
  variance /= 18;
  if (variance <= 0 || concordant <= 0) return 0;
  return 0.5 * std::erfc(-(concordant - 1) / std::sqrt(2 * variance));
}

}  // namespace gpumem
