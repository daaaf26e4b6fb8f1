// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/state/residual_memory.h"

#include <algorithm>

#include "gpumem/trace.pb.h"
#include "replay/state/accounts.h"
#include "trace/event_batch.h"

namespace gpumem {

void ResidualMemory::Apply(const EventRow& row) {
  const uint32_t slot = SlotOfDevice(row.device);
  switch (row.kind) {
    case trace::CONTEXT_CREATE:
      return AddContext(row);
    case trace::CONTEXT_GROWTH:
      return GrowContext(row);
    case trace::CONTEXT_DESTROY:
      RemoveContext(row.handle, slot);
      if (row.handle == 0) RemoveModulesOf(slot);
      return;
    case trace::DEVICE_RESET:
      RemoveContext(0, slot);
      return RemoveModulesOf(slot);
    case trace::MODULE_LOAD:
      return AddModule(row);
    case trace::MODULE_UNLOAD:
      return RemoveModule(row.handle);
    default:
      return;
  }
}

void ResidualMemory::AddContext(const EventRow& row) {
  const uint32_t slot = SlotOfDevice(row.device);
  RemoveContext(row.handle, slot);
  contexts_[{row.handle, row.handle == 0 ? slot : 0}] = {row.size, slot};
  ResidualUse& use = At(slot);
  ++use.contexts;
  use.context_bytes += row.size;
  use.peak_context_bytes = std::max(use.peak_context_bytes, use.context_bytes);
}

void ResidualMemory::GrowContext(const EventRow& row) {
  const uint32_t slot = SlotOfDevice(row.device);
  const auto it = contexts_.find({row.handle, row.handle == 0 ? slot : 0});
  if (it == contexts_.end()) return;
  it->second.size += row.size;
  ResidualUse& use = At(it->second.slot);
  use.context_bytes += row.size;
  use.peak_context_bytes = std::max(use.peak_context_bytes, use.context_bytes);
}

void ResidualMemory::AddModule(const EventRow& row) {
  if (row.handle == 0) return;
  RemoveModule(row.handle);
  const uint32_t slot = SlotOfDevice(row.device);
  modules_[{row.handle, 0}] = {row.size, slot};
  ResidualUse& use = At(slot);
  ++use.modules;
  use.module_bytes += row.size;
  use.peak_module_bytes = std::max(use.peak_module_bytes, use.module_bytes);
}

void ResidualMemory::RemoveContext(uint64_t handle, uint32_t slot) {
  const auto it = contexts_.find({handle, handle == 0 ? slot : 0});
  if (it == contexts_.end()) return;
  ResidualUse& use = At(it->second.slot);
  --use.contexts;
  use.context_bytes -= it->second.size;
  contexts_.erase(it);
}

void ResidualMemory::RemoveModule(uint64_t handle) {
  const auto it = modules_.find({handle, 0});
  if (it == modules_.end()) return;
  ResidualUse& use = At(it->second.slot);
  --use.modules;
  use.module_bytes -= it->second.size;
  modules_.erase(it);
}

// Code goes with the context that it was loaded into. Libraries stay, without memory.
void ResidualMemory::RemoveModulesOf(uint32_t slot) {
  std::vector<uint64_t> gone;
  for (const auto& [key, piece] : modules_) {
    if (piece.slot == slot) gone.push_back(key.first);
  }
  for (const uint64_t handle : gone) RemoveModule(handle);
}

}  // namespace gpumem
