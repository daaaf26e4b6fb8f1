// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/free_space.h"

#include <algorithm>

namespace gpumem {

FreeSpace FreeSpaceOf(const FragmentationPoint& point) {
  constexpr uint64_t kPercentLittle = 5;
  if (point.free * 100 < point.reserved * kPercentLittle) return FreeSpace::kLittle;
  return point.external_ratio >= 0.5 ? FreeSpace::kScattered : FreeSpace::kCached;
}

bool UsesExpandableSegments(const Fragmentation& fragmentation) {
  return std::any_of(fragmentation.pools.begin(), fragmentation.pools.end(),
                     [](const PoolFragmentation& pool) { return pool.pool == "expandable"; });
}

}  // namespace gpumem
