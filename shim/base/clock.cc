// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/base/clock.h"

namespace gpumemshim {

constinit std::atomic<ClockFunction> g_clock{&clock_gettime};

void UseClock(ClockFunction clock) {
  if (clock != nullptr) g_clock.store(clock, std::memory_order_relaxed);
}

}  // namespace gpumemshim
