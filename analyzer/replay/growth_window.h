// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// GrowthWindow: between which two moments of a run growth is measured, and whether memory grew all the time between
// them or at once. Pure; thread-safe.

#ifndef GPUMEM_ANALYZER_REPLAY_GROWTH_WINDOW_H_
#define GPUMEM_ANALYZER_REPLAY_GROWTH_WINDOW_H_

#include <cstdint>

#include "replay/timeline.h"

namespace gpumem {

// The two events, with their times. UINT64_MAX: there is no such event.
struct GrowthWindow {
  uint64_t from_event = UINT64_MAX, from_ns = 0;
  uint64_t to_event = UINT64_MAX, to_ns = 0;
  bool is_steady = false;  // the lowest points rise in both halves
};

// The moments within `whole` at which the program held least, early and late; `whole` where `timeline` has none.
GrowthWindow NarrowGrowthWindow(const Timeline& timeline, const GrowthWindow& whole);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_GROWTH_WINDOW_H_
