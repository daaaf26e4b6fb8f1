// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/python/growth.h"

#include <algorithm>

namespace gpumemshim::python {

void Growth::EndStretch() {
  if (count_ == kMaxStretches) {
    for (int i = 0; i < kMaxStretches / 2; ++i) lows_[i] = std::min(lows_[2 * i], lows_[2 * i + 1]);
    count_ = kMaxStretches / 2;
    if (stretch_ < (1u << 30)) stretch_ *= 2;
    return;  // this one goes on, and is as long as the others then
  }
  lows_[count_++] = low_;
  low_ = now_;
  events_ = 0;
}

int64_t Growth::LowOf(int from, int to) const { return *std::min_element(lows_ + from, lows_ + to); }

bool Growth::Rises() const {
  if (count_ < kLeastStretches) return false;
  // What a function lets go of when it returns, at the very end, is no dip of the run.
  const int64_t before = LowOf(count_ / 4, count_ / 2);
  const int64_t after = LowOf(count_ - count_ / 4, count_ - count_ / 16);
  const int64_t rise = after - before;
  return rise > 0 && now_ >= rise / 2;
}

}  // namespace gpumemshim::python
