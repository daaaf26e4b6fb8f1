// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The clock of every time in a trace. Reads the vDSO, so no system call; thread-safe, never fails, leaves errno alone.
// The order of events rests on it, so it must be the kernel's, whatever another preload makes of clock_gettime for the
// program (libfaketime stops or bends it): set-up names the C library's own function.
//
//   uint64_t started_ns = MonotonicNs();

#ifndef GPUMEM_SHIM_BASE_CLOCK_H_
#define GPUMEM_SHIM_BASE_CLOCK_H_

#include <time.h>

#include <atomic>
#include <cstdint>

namespace gpumemshim {

using ClockFunction = int (*)(clockid_t, timespec*);

extern std::atomic<ClockFunction> g_clock;

// nullptr leaves it as it is.
void UseClock(ClockFunction clock);

inline uint64_t ClockNs(clockid_t clock) {
  timespec t;
  g_clock.load(std::memory_order_relaxed)(clock, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}

inline uint64_t MonotonicNs() { return ClockNs(CLOCK_MONOTONIC); }

// For limits of work that a thread does: while it waits for a processor only a quarter of the time counts, so that a
// busy machine gets as far, and the limit is four times as long at most. To be compared on one thread alone; a system
// call.
inline uint64_t WorkNs() { return (MonotonicNs() + 3 * ClockNs(CLOCK_THREAD_CPUTIME_ID)) / 4; }

}  // namespace gpumemshim

#endif  // GPUMEM_SHIM_BASE_CLOCK_H_
