// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Accounts: the running totals of a replay, per device and for what belongs to none. Devices have slots: slot 0 is "no
// or unknown device". Copyable value; not thread-safe.

#ifndef GPUMEM_ANALYZER_REPLAY_STATE_ACCOUNTS_H_
#define GPUMEM_ANALYZER_REPLAY_STATE_ACCOUNTS_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace gpumem {

// What the devices themselves say of their memory (trace.proto, Counters), and how a process's share of a device is
// made up, as plain values. Sizes are bytes, times CLOCK_MONOTONIC. docs/reconciliation.md is the explanation.

// What a replay counts: which layers' events, and the four sums of a device.

// Numbers of trace.proto's Layer.
enum class LayerFilter : uint8_t { kAll = 0, kDriver = 1, kRuntime = 2, kTorch = 3 };

// A series of a device over time.
enum class Measure : uint8_t { kAllocated = 0, kReserved = 1, kOther = 2, kTotal = 3 };

struct MeasureValues {
  uint64_t allocated = 0;
  uint64_t reserved = 0;
  uint64_t other = 0;
  uint64_t total = 0;
};

// ReplayWork: bounds what the events of a trace can make a replay do. Nearly all events cost the same; a few look at
// everything that is alive (a device that is reset) or at many events behind them (Lookahead). Those count what they
// look at. A trace that was made to cost much is given up, at the same event in each replay of it, since the counts are
// part of the state. Copyable value.
//
//   if (!work.CountEvent()) return;   // given up
//   work.Spend(blocks.size());
class ReplayWork {
 public:
  // For each event, and for the whole trace: a program of a thousand threads needs less.
  static constexpr uint64_t kPerEvent = 1024;
  static constexpr uint64_t kFree = 1u << 26;

  // False: no further event is to be replayed.
  bool CountEvent() {
    if (spent_ > kFree + kPerEvent * events_) return false;
    ++events_;
    return true;
  }
  void Spend(uint64_t looked_at) { spent_ += looked_at; }

  bool exhausted() const { return spent_ > kFree + kPerEvent * events_; }
  uint64_t events() const { return events_; }

 private:
  uint64_t events_ = 0, spent_ = 0;
};

inline constexpr uint64_t kNotStated = UINT64_MAX;  // the device does not say

// What CUDA takes of a device for this process beyond the sizes that were asked for.
struct DriverUse {
  uint64_t contexts = 0, context_count = 0, contexts_not_measured = 0;
  uint64_t modules = 0, module_count = 0, modules_not_measured = 0;
  uint64_t graphs = 0;                       // reserved by CUDA graphs
  uint64_t local = 0, local_thread = 0;      // local memory of kernels; the most that a thread of one needs
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

  uint64_t Stated() const { return contexts + modules + graphs + local; }
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
  // Frees that CUDA refused, and those of them whose memory was not there: freed before, or never allocated.
  uint64_t refused_frees = 0, refused_unknown_frees = 0;
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
      device.torch_events = device.unknown_frees = device.refused_frees = device.refused_unknown_frees = 0;
      device.reported_last = false;
      device.at_report = device.values;
    }
    for (uint32_t slot = 0; slot < before.devices.size(); ++slot) {
      device(slot).unknown_frees = before.devices[slot].unknown_frees;
      device(slot).refused_frees = before.devices[slot].refused_frees;
      device(slot).refused_unknown_frees = before.devices[slot].refused_unknown_frees;
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
