// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/state/cuda_memory.h"

#include <algorithm>

namespace gpumem {
namespace {

// Allocations, pinned host memory and imports. cuda_memory_vmm.cc has virtual memory management, cuda_memory_ranges.cc
// the search.

// How CUDA gives out plain memory: in pages, which smaller allocations share.
constexpr uint64_t kPage = uint64_t{2} << 20, kSharesPageBelow = uint64_t{1} << 20, kSmallStep = 512;

bool IsDeviceMemory(uint8_t memory) {
  return memory == trace::DEVICE || memory == trace::STREAM_ORDERED || memory == trace::ARRAY;
}

}  // namespace

uint32_t CudaMemory::Apply(const EventRow& row, const Lookahead& ahead, Accounts* accounts) {
  switch (row.kind) {
    case trace::ALLOC:
      return Allocate(row, row.memory == trace::ARRAY ? kArrays : kPointers, ahead, accounts);
    case trace::FREE:
      return Free(row, row.memory == trace::ARRAY ? kArrays : kPointers, accounts);
    case trace::FREE_FAILED:
      return UndoFree(row, accounts);
    case trace::HOST_REGISTER:
      return Allocate(row, kRegistered, ahead, accounts);
    case trace::HOST_UNREGISTER:
      return Free(row, kRegistered, accounts);
    case trace::IMPORT:
      return row.address == 0 ? ImportHandle(row, accounts) : Allocate(row, kImported, ahead, accounts);
    case trace::IMPORT_CLOSE:
      return row.address == 0 ? Release(row, ahead, accounts) : Free(row, kImported, accounts);
    case trace::ADDRESS_RESERVE:
      return Reserve(row, accounts);
    case trace::ADDRESS_FREE:
      return Unreserve(row, ahead, accounts);
    case trace::PHYSICAL_CREATE:
      return Create(row, ahead, accounts);
    case trace::PHYSICAL_RELEASE:
      return Release(row, ahead, accounts);
    case trace::PHYSICAL_RETAIN:
      return Retain(row);
    case trace::MAP:
      return row.memory == trace::ARRAY ? MapArray(row, accounts) : Map(row, ahead, accounts);
    case trace::UNMAP:
      return row.memory == trace::ARRAY ? MapArray(row, accounts) : Unmap(row, ahead, accounts);
    case trace::DEVICE_RESET:
      return CorrectionFollows(row, ahead) ? SlotOfDevice(row.device) : ResetDevice(row, accounts);
    case trace::CONTEXT_DESTROY:
      return DestroyContext(row, ahead, accounts);
    case trace::POOL_CREATE:
      if (row.memory != trace::EXTERNAL)
        pools_[row.handle] = {SlotOfDevice(row.device), static_cast<uint8_t>(row.memory)};
      return SlotOfDevice(row.device);
    case trace::GRAPH_NODE_ALLOC:
      graph_addresses_.insert(row.address);
      return SlotOfDevice(row.device);
    case trace::GRAPH_MEMORY:
      return SetGraphMemory(row, accounts);
    case trace::MULTICAST_BIND:
      return Bind(row, accounts);
    case trace::MULTICAST_UNBIND:
      return Unbind(row, ahead, accounts);
    case trace::COMMUNICATOR:
      open_communicators_.Apply(row);
      return SlotOfDevice(row.device);
    default:
      return SlotOfDevice(row.device);  // failed calls and settings change nothing
  }
}

bool CudaMemory::Matches(uint8_t layer) const { return SeesTorch() || layer == static_cast<uint8_t>(filter_); }

bool CudaMemory::HoldsBlocks(const CudaAllocation& allocation, KeySpace space) {
  return space == kPointers && allocation.memory != trace::HOST_PINNED && allocation.size != 0;
}

// What CUDA takes for an allocation beyond its size.
void CudaMemory::CountOverhead(const CudaAllocation& allocation, int64_t sign, DriverUse* driver) {
  const uint64_t size = allocation.size;
  const auto add = [sign](uint64_t bytes, uint64_t* to) { *to += static_cast<uint64_t>(sign) * bytes; };
  if (allocation.memory == trace::STREAM_ORDERED) {
    add(size, &driver->stream_ordered);
    if (allocation.own_pool) add(size, &driver->stream_ordered_in_own_pools);
  } else if (size >= kSharesPageBelow) {
    add((kPage - size % kPage) % kPage, &driver->rounding);
  } else {
    add((size + kSmallStep - 1) / kSmallStep * kSmallStep, &driver->small_bytes);
    add(size, &driver->small_requested);
  }
}

void CudaMemory::Count(const CudaAllocation& allocation, int64_t sign, Accounts* accounts) {
  const int64_t bytes = sign * static_cast<int64_t>(allocation.size);
  if (allocation.on_device) {
    CountOverhead(allocation, sign, &accounts->device(allocation.slot).driver);
    if (allocation.torch) {
      accounts->AddReserved(allocation.slot, bytes);
    } else if (InOther(allocation)) {
      accounts->AddOther(allocation.slot, bytes);
    }
  } else if (!Matches(allocation.layer)) {
    return;
  } else if (!allocation.counted) {
    Accounts::AddTo(bytes, &accounts->imported, &accounts->imported_peak);
  } else if (allocation.memory == trace::MANAGED) {
    Accounts::AddTo(bytes, &accounts->managed, &accounts->managed_peak);
  } else {
    Accounts::AddTo(bytes, &accounts->host_pinned, &accounts->host_pinned_peak);
  }
}

uint32_t CudaMemory::Allocate(const EventRow& row, KeySpace space, const Lookahead& ahead, Accounts* accounts) {
  const uint32_t slot = SlotOfDevice(row.device);
  if (row.address == 0) return slot;  // an allocation of 0 bytes
  CudaAllocation allocation;
  allocation.address = row.address;
  allocation.size = row.size;
  allocation.stack = row.stack;
  allocation.time_ns = row.time_ns;
  allocation.api = row.api;
  allocation.slot = slot;
  allocation.thread = row.thread;
  allocation.communicator = open_communicators_.MakerOf(row.thread, slot);
  allocation.layer = static_cast<uint8_t>(row.layer);
  allocation.memory = space == kRegistered ? uint8_t{trace::HOST_PINNED} : static_cast<uint8_t>(row.memory);
  if (row.memory == trace::STREAM_ORDERED) {
    PlaceInPool(row, &allocation);
  } else {
    allocation.context = row.handle;
  }
  allocation.on_device = (space == kPointers || space == kArrays) && IsDeviceMemory(allocation.memory);
  allocation.own_pool = allocation.memory == trace::STREAM_ORDERED && row.handle != 0;
  allocation.counted = space != kImported && Matches(allocation.layer);
  allocation.torch = allocation.on_device && HoldsBlocks(allocation, space) &&
                     BecomesSegment(row.thread, row.address, row.size, ahead);

  const uint32_t old = index_[space].Find(row.address);
  if (old != AddressIndex::kNone) {
    // An import may be opened several times; everything else cannot be given out twice.
    if (space != kImported) ++accounts->implicit_frees;
    Remove(old, space, accounts);
  }
  if (HoldsBlocks(allocation, space)) RemoveOverlaps(row.address, row.address + row.size, accounts);
  Insert(allocation, space, accounts);
  return allocation.slot;
}

void CudaMemory::Insert(const CudaAllocation& allocation, KeySpace space, Accounts* accounts) {
  const uint32_t place = allocations_.Add(allocation);
  index_[space].Insert(allocation.address, place);
  if (HoldsBlocks(allocation, space)) AddRange(allocation.address, allocation.size, SegmentRef{place});
  Count(allocation, 1, accounts);
  if (observer_ != nullptr && space != kGraphs) observer_->OnAlloc(Held::kAllocation, place);
}

void CudaMemory::Remove(uint32_t place, KeySpace space, Accounts* accounts) {
  const CudaAllocation& allocation = allocations_[place];
  if (observer_ != nullptr && space != kGraphs) observer_->OnFree(Held::kAllocation, place);
  Count(allocation, -1, accounts);
  if (allocation.live_blocks > 0) lost_ranges_.emplace_back(allocation.address, allocation.address + allocation.size);
  if (HoldsBlocks(allocation, space)) RemoveRange(allocation.address);
  index_[space].Remove(allocation.address);
  allocations_.Remove(place);
}

uint32_t CudaMemory::Free(const EventRow& row, KeySpace space, Accounts* accounts) {
  if (row.address == 0) return SlotOfDevice(row.device);  // freeing null is allowed, and does nothing
  // A buffer of an imported object goes by an ordinary free.
  if (index_[space].Find(row.address) == AddressIndex::kNone) space = kImported;
  const uint32_t place = index_[space].Find(row.address);
  if (place == AddressIndex::kNone) {
    undo_.erase(row.thread);
    if (EndExternalBuffer(row.address, accounts)) return SlotOfDevice(row.device);
    // What a graph allocated may be freed outside of it; the driver says what is left.
    if (graph_addresses_.contains(row.address)) return SlotOfDevice(row.device);
    return FreeUnknown(row, accounts);
  }
  if (space == kArrays) LetGo(&array_holds_, row.address, kAnySlot, UINT64_MAX, accounts);
  undo_[row.thread] = {space, true, allocations_[place]};
  const uint32_t slot = allocations_[place].slot;
  Remove(place, space, accounts);
  return slot;
}

uint32_t CudaMemory::FreeUnknown(const EventRow& row, Accounts* accounts) {
  const uint32_t slot = SlotOfDevice(row.device);
  ++accounts->device(slot).unknown_frees;
  Undo undo;
  undo.allocation.address = row.address;
  undo.allocation.slot = slot;
  undo_[row.thread] = undo;
  return slot;
}

uint32_t CudaMemory::UndoFree(const EventRow& row, Accounts* accounts) {
  const auto it = undo_.find(row.thread);
  if (it == undo_.end() || it->second.allocation.address != row.address) return SlotOfDevice(row.device);
  Undo undo = it->second;
  undo_.erase(it);
  const uint32_t slot = undo.allocation.slot;
  ++accounts->device(slot).refused_frees;
  if (!undo.was_known) {
    ++accounts->device(slot).refused_unknown_frees;
    if (uint64_t& unknown = accounts->device(slot).unknown_frees; unknown > 0) --unknown;
  } else if (index_[undo.space].Find(row.address) == AddressIndex::kNone && FindRange(row.address).is_none()) {
    undo.allocation.live_blocks = 0;
    Insert(undo.allocation, undo.space, accounts);
  }
  return slot;
}

uint32_t CudaMemory::ResetDevice(const EventRow& row, Accounts* accounts) {
  const uint32_t slot = SlotOfDevice(row.device);
  accounts->work.Spend(3 * allocations_.places() + mappings_.size() + physicals_.places() + multicast_holds_.size() +
                       array_holds_.size() + undo_.size());
  for (const KeySpace space : {kPointers, kArrays, kRegistered}) {
    std::vector<uint32_t> gone;
    allocations_.ForEachPlace([&](uint32_t place, const CudaAllocation& allocation) {
      const bool is_here = index_[space].Find(allocation.address) == place;
      if (is_here && allocation.slot == slot && allocation.context == 0) gone.push_back(place);
    });
    for (const uint32_t place : gone) Remove(place, space, accounts);
  }
  for (auto it = mappings_.begin(); it != mappings_.end();) {
    const uint64_t address = it->first;
    if (physicals_[it->second.physical].slot == slot) EraseMapping(it, accounts);
    it = mappings_.upper_bound(address);
  }
  for (std::vector<Hold>* holds : {&multicast_holds_, &array_holds_}) {
    holds->erase(std::remove_if(holds->begin(), holds->end(),
                                [&](const Hold& hold) { return physicals_[hold.physical].slot == slot; }),
                 holds->end());
  }
  std::vector<uint32_t> gone;
  physicals_.ForEachPlace([&](uint32_t place, const PhysicalHandle& physical) {
    if (physical.slot == slot && !physical.imported) gone.push_back(place);
  });
  for (const uint32_t place : gone) {
    const auto it = handle_index_.find(physicals_[place].handle);
    if (it != handle_index_.end() && it->second == place) handle_index_.erase(it);
    physicals_[place].refs = 0;
    physicals_[place].maps = 0;
    physicals_[place].holds = 0;
    DropIfUnused(place, accounts);
  }
  if (const uint32_t graphs = index_[kGraphs].Find(slot + 1); graphs != AddressIndex::kNone) {
    Remove(graphs, kGraphs, accounts);
  }
  undo_.clear();
  return slot;
}

}  // namespace gpumem
