// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What is known of a GPU that is not here: devices.json, each with its source.
//
//   absl::StatusOr<DeviceProfile> profile = FindDevice("h100");
//   profile->memory_mib;   // 81008
//
// Thread-safety: pure functions. Failure: NotFound, with the names that there are.

#ifndef GPUMEM_PLANNER_LAUNCH_DEVICE_PROFILE_H_
#define GPUMEM_PLANNER_LAUNCH_DEVICE_PROFILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpumem::plan {

struct DeviceProfile {
  std::string name;       // "H100", as --device has it
  std::string full_name;  // as the driver names it
  std::vector<std::string> aliases;
  uint64_t memory_mib = 0;  // what a program sees as its total
  int capability = 0;       // major * 10 + minor
  int multiprocessors = 0;
  uint64_t shared_memory = 0;  // bytes a block may opt in to; 0: as its capability has
  uint64_t l2_cache = 0;       // bytes; 0 with the next three: not known, as of a device by --memory alone
  int memory_bus = 0;          // bits
  int memory_clock_mhz = 0;
  int clock_mhz = 0;
  std::string source;  // where the numbers are from

  uint64_t memory_bytes() const { return memory_mib << 20; }
};

// Every device of devices.json, in its order.
const std::vector<DeviceProfile>& AllDevices();

// By name or alias; case, blanks, hyphens and underscores do not count.
absl::StatusOr<DeviceProfile> FindDevice(absl::string_view name);

// "8.6" as 86.
absl::StatusOr<int> ParseCapability(absl::string_view text);

// "9.0" of 90, as people write it.
std::string CapabilityText(int capability);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_LAUNCH_DEVICE_PROFILE_H_
