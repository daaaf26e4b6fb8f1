// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "import/block_size.h"

#include <algorithm>

namespace gpumem {
namespace {

constexpr uint64_t kSmallest = 512;
constexpr uint64_t kLeastRest = 1u << 20;  // of large segments
constexpr int kFirstInterval = 20;         // of roundup_power2_divisions: 1 MiB

int Log2(uint64_t value) { return 63 - __builtin_clzll(value | 1); }

// Up to the next of `divisions` equal steps between two powers of two.
uint64_t NextStep(uint64_t size, uint64_t divisions) {
  if ((size & (size - 1)) == 0) return size;
  const uint64_t floor = uint64_t{1} << Log2(size);
  const uint64_t step = floor >> Log2(divisions);
  if (step == 0) return floor << 1;
  return (size + step - 1) & ~(step - 1);
}

}  // namespace

uint64_t BlockSizes::Rounded(uint64_t requested) const {
  if (requested < kSmallest) return kSmallest;
  if (requested > uint64_t{1} << 60) return requested;
  if (!divisions_.empty()) {
    const int interval = std::clamp(Log2(requested) - kFirstInterval, 0, static_cast<int>(divisions_.size()) - 1);
    const uint64_t divisions = divisions_[static_cast<size_t>(interval)];
    if (divisions > 1 && requested / kSmallest > divisions) return NextStep(requested, divisions);
  }
  return (requested + kSmallest - 1) / kSmallest * kSmallest;
}

uint64_t BlockSizes::Taken(uint64_t requested, uint64_t free, bool splits_small) const {
  const uint64_t rounded = Rounded(requested);
  if (rounded >= free) return free;
  const uint64_t rest = free - rounded;
  if (splits_small) return rest >= kSmallest ? rounded : free;
  return rounded < max_split_ && rest > kLeastRest ? rounded : free;
}

}  // namespace gpumem
