// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ProfilerBlocks: the memory events of a profile as blocks on devices: in the order of their times, those of the host
// left out, each with an address, and what was there before.
//
// A device is one of PyTorch's kinds (CUDA, HIP, XPU, ...) and a number. The kind with the most events keeps its
// numbers; devices of others follow them. Where the profile states no address (older PyTorch), a free ends the
// block of its size that the device got last: every total is exact, which of several equal blocks went is not known.
//
// What was allocated before the profile is what the first event of a device says beyond its own bytes. Where it says no
// total, it is at least what the profile frees without having seen it allocated.
//
// Not thread-safe. DataLoss where it takes more than `memory` allows.
//
//   ProfilerBlocks blocks(&events.memory, &memory);
//   GPUMEM_RETURN_IF_ERROR(blocks.Find());
//   for (const auto& [index, device] : blocks.devices()) ...    // memory[i].device is `index` from then on

#ifndef GPUMEM_ANALYZER_IMPORT_PROFILER_BLOCKS_H_
#define GPUMEM_ANALYZER_IMPORT_PROFILER_BLOCKS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "import/import.h"
#include "import/profiler_events.h"

namespace gpumem {

// "CUDA", "HIP", "XPU" of c10::DeviceType; "" of what lies in the host's memory.
absl::string_view DeviceKindName(int32_t device_type);

struct ProfilerDeviceUse {
  int32_t kind = 0, id = 0;  // as the profile has them
  bool has_totals = false, has_reserved = false;
  uint64_t before = 0;           // allocated before the first event; at least where !has_totals
  std::vector<size_t> freed;     // indices of frees whose allocation came before
  uint64_t matched_by_size = 0;  // frees without an address
  uint64_t disagreeing = 0;      // events that state another total than is summed here
  uint64_t first_wrong_ns = 0;   // of these
};

class ProfilerBlocks {
 public:
  ProfilerBlocks(std::vector<ProfilerMemoryEvent>* events, ImportMemory* memory) : events_(*events), memory_(*memory) {}

  absl::Status Find();

  const std::map<int, ProfilerDeviceUse>& devices() const { return devices_; }
  uint64_t of_host() const { return of_host_; }  // events left out

  static uint64_t SizeOf(const ProfilerMemoryEvent& event) {
    const auto bytes = static_cast<uint64_t>(event.bytes);
    return event.bytes < 0 ? uint64_t{0} - bytes : bytes;
  }

 private:
  using SizeKey = std::pair<int32_t, uint64_t>;  // device, bytes

  void Number();
  absl::Status MakeAddress(ProfilerMemoryEvent* event, ProfilerDeviceUse* device);
  uint64_t NewAddress(const SizeKey& key);
  void Count(const ProfilerMemoryEvent& event, size_t i, ProfilerDeviceUse* device);

  std::vector<ProfilerMemoryEvent>& events_;
  ImportMemory& memory_;
  std::map<int, ProfilerDeviceUse> devices_;
  uint64_t of_host_ = 0;
  std::map<int, uint64_t> total_;                             // summed so far, by device
  absl::flat_hash_set<std::pair<int32_t, uint64_t>> seen_;    // addresses that had an event, by device
  absl::flat_hash_map<SizeKey, std::vector<uint64_t>> held_;  // addresses of blocks that live, the last one last
  absl::flat_hash_map<SizeKey, std::vector<uint64_t>> free_;  // addresses to use again
  uint64_t next_address_ = 0;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_IMPORT_PROFILER_BLOCKS_H_
