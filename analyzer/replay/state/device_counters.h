// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What the devices themselves say of their memory (trace.proto, Counters), and how a process's share of a device is
// made up, as plain values. Sizes are bytes, times CLOCK_MONOTONIC. docs/reconciliation.md is the explanation.

#ifndef GPUMEM_ANALYZER_REPLAY_STATE_DEVICE_COUNTERS_H_
#define GPUMEM_ANALYZER_REPLAY_STATE_DEVICE_COUNTERS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace gpumem {

inline constexpr uint64_t kNotStated = UINT64_MAX;  // the device does not say

// What CUDA takes of a device for this process beyond the sizes that were asked for.
struct DriverUse {
  uint64_t contexts = 0, context_count = 0, contexts_not_measured = 0;
  uint64_t modules = 0, module_count = 0, modules_not_measured = 0;
  uint64_t graphs = 0;                       // reserved by CUDA graphs
  uint64_t rounding = 0;                     // of allocations that fill pages of 2 MiB
  uint64_t small_bytes = 0;                  // allocations that share pages, in steps of 512 bytes
  uint64_t small_requested = 0;              // the same as asked for
  uint64_t stream_ordered = 0;               // live memory from pools, as asked for
  uint64_t stream_ordered_in_own_pools = 0;  // of it: from pools that the program made

  // Derived: what rounding takes at least. Holes between small allocations come on top.
  uint64_t Rounding() const {
    constexpr uint64_t kPage = uint64_t{2} << 20;
    return rounding + (small_bytes + kPage - 1) / kPage * kPage - small_requested;
  }
  bool operator==(const DriverUse&) const = default;

  uint64_t Stated() const { return contexts + modules + graphs; }
};

// How this process was found among the device's. Numbers of trace.proto's OwnProcess.
enum class OwnProcessMatch : uint8_t { kUnknown = 0, kByPid = 1, kByPidInside = 2, kOnlyOne = 3 };

struct OtherProcess {
  uint32_t pid = 0;
  std::string name;  // "" = not known
  uint64_t bytes = kNotStated;
};

// One device in one sample.
struct DeviceReading {
  uint64_t time_ns = 0;
  uint64_t took_ns = 0;
  uint8_t cause = 0;  // trace.proto's SampleCause
  OwnProcessMatch own_process = OwnProcessMatch::kUnknown;
  uint64_t total = kNotStated, used = kNotStated, free = kNotStated, driver_reserved = kNotStated;
  uint64_t own = kNotStated;
  uint64_t pool_reserved = kNotStated;  // of the device's default pool; kNotStated also where it was not used
  uint64_t other_count = kNotStated;
  std::vector<OtherProcess> others;  // largest first; some may be left out
  // What the replay knows of the same instant.
  uint64_t known = 0;  // MeasureValues::total
  DriverUse driver;
  bool steady = true;  // nothing of CUDA was allocated or freed while the sample was taken
};

// A process that was on a device beside this one.
struct Neighbour {
  uint32_t pid = 0;
  std::string name;
  uint64_t first_ns = 0, last_ns = 0;  // samples that had it
  uint64_t peak = 0, last = 0;         // 0 = not stated
};

// GPUMEMSHIM_WARN_AT: a limit was reached for the first time.
struct CrossedLimit {
  uint64_t time_ns = 0;
  int device = 0;
  uint32_t percent = 0;  // 0: `bytes` is the limit
  uint64_t bytes = 0;
  uint64_t used = 0, total = 0;  // total 0 = not known
  uint64_t own = kNotStated;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_STATE_DEVICE_COUNTERS_H_
