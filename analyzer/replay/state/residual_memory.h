// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ResidualMemory: the contexts and modules of a process, and what of the device's memory went with making them. CUDA
// names no size for either: the sizes are differences of the device's free memory around the call, so they are
// estimates, and 0 where nothing could be measured. Part of no total.
//
// Copyable value. Not thread-safe. Nothing in it fails; what ends without having begun is ignored.
//
//   residual.Apply(row);
//   residual.device(slot).context_bytes;

#ifndef GPUMEM_ANALYZER_REPLAY_STATE_RESIDUAL_MEMORY_H_
#define GPUMEM_ANALYZER_REPLAY_STATE_RESIDUAL_MEMORY_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace gpumem {

struct EventRow;

// Contexts and modules, with what was measured of them: estimates, part of no total. See ResidualMemory.
struct ResidualUse {
  uint64_t contexts = 0, context_bytes = 0, peak_context_bytes = 0;
  uint64_t modules = 0, module_bytes = 0, peak_module_bytes = 0;
};

class ResidualMemory {
 public:
  // Any event; most change nothing.
  void Apply(const EventRow& row);

  const ResidualUse& device(uint32_t slot) const {
    static constexpr ResidualUse kNone;
    return slot < devices_.size() ? devices_[slot] : kNone;
  }

 private:
  struct Piece {
    uint64_t size = 0;
    uint32_t slot = 0;
  };
  using Pieces =
      absl::flat_hash_map<std::pair<uint64_t, uint32_t>, Piece>;  // by handle, and slot where the handle is 0

  ResidualUse& At(uint32_t slot) {
    if (slot >= devices_.size()) devices_.resize(slot + 1);
    return devices_[slot];
  }
  void AddContext(const EventRow& row);
  void GrowContext(const EventRow& row);
  void AddModule(const EventRow& row);
  void RemoveContext(uint64_t handle, uint32_t slot);
  void RemoveModule(uint64_t handle);
  void RemoveModulesOf(uint32_t slot);

  std::vector<ResidualUse> devices_;
  Pieces contexts_, modules_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_STATE_RESIDUAL_MEMORY_H_
