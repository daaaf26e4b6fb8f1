// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The clock of every time in a trace. Reads the vDSO, so no system call; thread-safe, never fails, leaves errno alone.
//
//   uint64_t started_ns = MonotonicNs();

#ifndef GPUMEM_SHIM_BASE_CLOCK_H_
#define GPUMEM_SHIM_BASE_CLOCK_H_

#include <time.h>

#include <cstdint>

namespace gpumemshim {

inline uint64_t ClockNs(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}

inline uint64_t MonotonicNs() { return ClockNs(CLOCK_MONOTONIC); }

}  // namespace gpumemshim

#endif  // GPUMEM_SHIM_BASE_CLOCK_H_
