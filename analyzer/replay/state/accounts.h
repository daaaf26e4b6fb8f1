// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Accounts: the running totals of a replay, per device and for what belongs to none. Devices have slots: slot 0 is "no
// or unknown device". Copyable value; not thread-safe.

#ifndef GPUMEM_ANALYZER_REPLAY_STATE_ACCOUNTS_H_
#define GPUMEM_ANALYZER_REPLAY_STATE_ACCOUNTS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "replay/state/device_counters.h"
#include "replay/state/measures.h"
#include "replay/state/work.h"

namespace gpumem {

// Ordinals beyond are hostile; they are counted as "unknown device".
inline constexpr int kMaxDevices = 256;

inline uint32_t SlotOfDevice(int device) {
  return device < 0 || device >= kMaxDevices ? 0 : static_cast<uint32_t>(device) + 1;
}
inline int DeviceOfSlot(uint32_t slot) { return static_cast<int>(slot) - 1; }

struct DeviceAccount {
  MeasureValues values;
  // As of PyTorch's last report, where events of CUDA came since; behind a failed request, of the report before it.
  MeasureValues at_report;
  DriverUse driver;  // what CUDA takes beyond `values`
  uint64_t torch_events = 0;
  uint64_t unknown_frees = 0;
  // Behind a gap, once PyTorch said its totals: what they say beyond what is known alive. It lives, and where it came
  // from is lost with the gap; negative: so much of what counts as alive is not. Both are part of `values`.
  int64_t lost_allocated = 0, lost_reserved = 0;
  bool unsure = false;         // behind a gap, and PyTorch has not said its totals since
  bool reported_last = false;  // its last event was a report of PyTorch: `values` are those of the report
  bool seen = false;           // an event named it

  const MeasureValues& AtLastReport() const { return reported_last ? values : at_report; }
};

struct Accounts {
  std::vector<DeviceAccount> devices = std::vector<DeviceAccount>(1);
  ReplayWork work;
  uint64_t host_pinned = 0, host_pinned_peak = 0;
  uint64_t managed = 0, managed_peak = 0;
  uint64_t imported = 0, imported_peak = 0;

  // What the trace did that no correct trace of a correct program does, or what the numbers rest on.
  uint64_t implicit_frees = 0;    // address handed out again although its free was never seen
  uint64_t lost_block_frees = 0;  // torch blocks that went with their segment
  uint64_t blocks_without_segment = 0;
  uint64_t unknown_maps = 0;     // mappings of a handle that was never seen
  uint64_t size_mismatches = 0;  // torch frees that state another size than the allocation
  uint64_t failed_calls = 0;     // that failed for another reason than missing memory

  DeviceAccount& device(uint32_t slot) {
    if (slot >= devices.size()) devices.resize(slot + 1);
    return devices[slot];
  }
  // No total falls below 0: behind a gap what ends may have been taken off already.
  void AddAllocated(uint32_t slot, int64_t bytes) { AddTo(bytes, &device(slot).values.allocated); }
  void AddReserved(uint32_t slot, int64_t bytes) {
    MeasureValues& values = device(slot).values;
    AddTo(bytes, &values.reserved);
    values.total = values.reserved + values.other;
  }
  void AddOther(uint32_t slot, int64_t bytes) {
    MeasureValues& values = device(slot).values;
    AddTo(bytes, &values.other);
    values.total = values.reserved + values.other;
  }
  // What was counted before what is alive was taken anew. Nothing of that was a report of PyTorch's.
  void Continue(const Accounts& before) {
    for (DeviceAccount& device : devices) {
      device.torch_events = device.unknown_frees = 0;
      device.reported_last = false;
      device.at_report = device.values;
    }
    for (uint32_t slot = 0; slot < before.devices.size(); ++slot) {
      device(slot).unknown_frees = before.devices[slot].unknown_frees;
      device(slot).seen |= before.devices[slot].seen;
    }
    host_pinned_peak = std::max(host_pinned, before.host_pinned_peak);
    managed_peak = std::max(managed, before.managed_peak);
    imported_peak = std::max(imported, before.imported_peak);
    implicit_frees = before.implicit_frees;
    lost_block_frees = before.lost_block_frees;
    blocks_without_segment = before.blocks_without_segment;
    unknown_maps = before.unknown_maps;
    size_mismatches = before.size_mismatches;
    work = before.work;
    failed_calls = before.failed_calls;
  }
  static void AddTo(int64_t bytes, uint64_t* total) {
    const uint64_t sum = *total + static_cast<uint64_t>(bytes);
    *total = bytes < 0 && sum > *total ? 0 : sum;
  }
  static void AddTo(int64_t bytes, uint64_t* total, uint64_t* peak) {
    *total += static_cast<uint64_t>(bytes);
    if (*total > *peak && bytes > 0) *peak = *total;
  }
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_STATE_ACCOUNTS_H_
