// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Memory that more than one thing holds or that goes with something else: pools, graphs, sparse arrays, multicast
// objects, external buffers, contexts.

#include <algorithm>

#include "replay/state/cuda_memory.h"

namespace gpumem {

// A pool's memory is where the pool is, whatever device was current.
void CudaMemory::PlaceInPool(const EventRow& row, CudaAllocation* allocation) const {
  const auto it = pools_.find(row.handle);
  if (it == pools_.end()) return;
  allocation->slot = it->second.slot;
  allocation->memory = it->second.memory;
}

uint32_t CudaMemory::SetGraphMemory(const EventRow& row, Accounts* accounts) {
  CudaAllocation graphs;
  graphs.slot = SlotOfDevice(row.device);
  graphs.address = graphs.slot + 1;
  graphs.size = row.size;
  graphs.stack = row.stack;
  graphs.time_ns = row.time_ns;
  graphs.api = row.api;
  graphs.layer = static_cast<uint8_t>(row.layer);
  graphs.memory = trace::STREAM_ORDERED;
  graphs.on_device = true;
  graphs.counted = Matches(graphs.layer);
  const uint32_t old = index_[kGraphs].Find(graphs.address);
  if (old != AddressIndex::kNone) Remove(old, kGraphs, accounts);
  if (graphs.size != 0) Insert(graphs, kGraphs, accounts);
  return graphs.slot;
}

uint64_t CudaMemory::GraphBytes(uint32_t slot) const {
  const uint32_t graphs = index_[kGraphs].Find(uint64_t{slot} + 1);
  if (graphs == AddressIndex::kNone || !InOther(allocations_[graphs])) return 0;
  return allocations_[graphs].size;
}

// A buffer of an external object goes by an ordinary free.
bool CudaMemory::EndExternalBuffer(uint64_t address, Accounts* accounts) {
  const auto it = mappings_.find(address);
  if (it == mappings_.end() || physicals_[it->second.physical].memory != trace::EXTERNAL) return false;
  EraseMapping(it, accounts);
  return true;
}

void CudaMemory::Keep(const Hold& hold) { ++physicals_[hold.physical].holds; }

void CudaMemory::LetGo(std::vector<Hold>* holds, uint64_t owner, uint32_t slot, uint64_t bytes, Accounts* accounts) {
  accounts->work.Spend(holds->size());
  for (size_t i = 0; i < holds->size() && bytes > 0;) {
    const Hold hold = (*holds)[i];
    if (hold.owner != owner || (slot != kAnySlot && physicals_[hold.physical].slot != slot)) {
      ++i;
      continue;
    }
    holds->erase(holds->begin() + static_cast<std::ptrdiff_t>(i));
    bytes -= std::min(bytes, std::max<uint64_t>(hold.size, 1));
    --physicals_[hold.physical].holds;
    DropIfUnused(hold.physical, accounts);
  }
}

uint32_t CudaMemory::Bind(const EventRow& row, Accounts* accounts) {
  uint32_t place = UINT32_MAX;
  if (row.memory == trace::PHYSICAL) {
    if (const auto it = handle_index_.find(row.address); it != handle_index_.end()) place = it->second;
  } else {
    auto it = mappings_.upper_bound(row.address);
    if (it != mappings_.begin() && row.address - (--it)->first < it->second.size) place = it->second.physical;
  }
  if (place == UINT32_MAX) return SlotOfDevice(row.device);  // memory of before the trace
  multicast_holds_.push_back({row.handle, row.size, place});
  Keep(multicast_holds_.back());
  accounts->device(physicals_[place].slot).seen = true;
  return physicals_[place].slot;
}

uint32_t CudaMemory::Unbind(const EventRow& row, const Lookahead& ahead, Accounts* accounts) {
  const uint32_t slot = SlotOfDevice(row.device);
  if (!CorrectionFollows(row, ahead)) LetGo(&multicast_holds_, row.handle, slot, row.size, accounts);
  return slot;
}

uint32_t CudaMemory::MapArray(const EventRow& row, Accounts* accounts) {
  const uint32_t slot = SlotOfDevice(row.device);
  if (row.kind == trace::UNMAP) {
    LetGo(&array_holds_, row.address, kAnySlot, 1, accounts);
  } else if (const auto it = handle_index_.find(row.handle); it != handle_index_.end()) {
    array_holds_.push_back({row.address, 1, it->second});
    Keep(array_holds_.back());
  }
  return slot;
}

// Physical memory and pools belong to no context; the primary one's end is a reset all the same.
uint32_t CudaMemory::DestroyContext(const EventRow& row, const Lookahead& ahead, Accounts* accounts) {
  const uint32_t slot = SlotOfDevice(row.device);
  if (CorrectionFollows(row, ahead)) return slot;
  if (row.handle == 0) return ResetDevice(row, accounts);
  accounts->work.Spend(3 * allocations_.places());
  for (const KeySpace space : {kPointers, kArrays, kRegistered}) {
    std::vector<uint32_t> gone;
    allocations_.ForEachPlace([&](uint32_t place, const CudaAllocation& allocation) {
      if (allocation.context == row.handle && index_[space].Find(allocation.address) == place) gone.push_back(place);
    });
    for (const uint32_t place : gone) Remove(place, space, accounts);
  }
  return slot;
}

}  // namespace gpumem
