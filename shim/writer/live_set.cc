// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/writer/live_set.h"

#include <string.h>

#include <algorithm>
#include <initializer_list>

namespace gpumemshim::writer {
namespace {

// trace.proto, EventKind: memory of contexts and modules.
constexpr uint8_t kContextCreate = 20, kContextDestroy = 21, kModuleLoad = 22, kModuleUnload = 23;

uint64_t ModuleKey(const Event& event) { return event.handle != 0 ? event.handle : event.address; }

}  // namespace

void LiveSet::Apply(const Event& event, const EventIds& ids) {
  if (ApplyExisting(event, ids)) return;
  if (event.layer == Layer::kTorch) {
    ApplyTorch(event, ids);
  } else {
    ApplyCuda(event, ids);
  }
}

// The first block of a segment lies at its start, so a segment is known by its first block.
void LiveSet::MarkSegment(uint64_t address) {
  for (const Space space : {kPointers, kReservations}) {
    const uint32_t place = index_.Find(space, address);
    if (place != KeyIndex::kNone) slab_[place].torch_segment = true;
  }
}

void LiveSet::ApplyTorch(const Event& event, const EventIds& ids) {
  if (event.kind == EventKind::kAlloc) {
    Add(kBlocks, event.address, event, ids);
    MarkSegment(event.address);
  } else if (event.kind == EventKind::kFree) {
    if (!Remove(kBlocks, event.address, ids.thread) && watches_) freed_.Push(event.address);
  }
}

// What existed when recording began (trace.proto, EXISTING) is recorded later than that: what happened at its address
// since is known better. False: the event is another one.
bool LiveSet::ApplyExisting(const Event& event, const EventIds& ids) {
  if (event.kind == EventKind::kRecordingStart && event.handle == kStartWithExisting) {
    watches_ = true;
    start_order_ = last_order_;
    freed_.Clear();
  } else if (event.kind == EventKind::kExisting) {
    AddExisting(event, ids);
  } else if (event.kind == EventKind::kExistingEnd) {
    if (event.result == 0) DropOlder();
    watches_ = false;
  } else {
    return false;
  }
  return true;
}

void LiveSet::AddExisting(const Event& event, const EventIds& ids) {
  Event made = event;
  made.handle = 0;
  const bool is_block = event.handle == kExistingBlock, is_segment = event.handle == kExistingSegment;
  made.kind = is_block || is_segment ? EventKind::kAlloc : EventKind::kMap;
  made.layer = is_block ? Layer::kTorch : is_segment ? Layer::kRuntime : Layer::kDriver;
  made.memory = is_block || is_segment ? Memory::kDevice : Memory::kVirtual;
  const Space space = is_block ? kBlocks : is_segment ? kPointers : kMappings;
  const uint64_t page = made.kind == EventKind::kMap && event.requested_size != 0 ? event.requested_size : event.size;
  if (page == 0 || event.size / page > kMaxObjects) return;
  if (is_block &&
      std::find(freed_.data(), freed_.data() + freed_.size(), event.address) != freed_.data() + freed_.size())
    return;
  for (uint64_t at = 0; at < event.size; at += page) {
    made.address = event.address + at;
    made.size = page < event.size - at ? page : event.size - at;
    if (made.kind == EventKind::kMap) made.requested_size = 0;
    const uint32_t known = index_.Find(space, made.address);
    if (known != KeyIndex::kNone && slab_[known].order > start_order_) continue;
    const uint32_t place = Add(space, made.address, made, ids);
    if (place != KeyIndex::kNone && !is_block) slab_[place].torch_segment = true;
  }
}

// PyTorch's own, from before the recording began anew, which its snapshot does not have any more.
void LiveSet::DropOlder() {
  for (uint32_t place = 0; place < slab_.size(); place++) {
    const Entry& entry = slab_[place];
    if (entry.order == 0 || entry.order > start_order_) continue;
    const bool is_block = entry.event.layer == Layer::kTorch;
    if (!is_block && !(entry.torch_segment && entry.event.kind == EventKind::kAlloc)) continue;
    const Space space = is_block ? kBlocks : SpaceOf(entry.event);
    if (index_.Find(space, entry.event.address) == place) index_.Remove(space, entry.event.address);
    Free(place);
  }
}

LiveSet::Space LiveSet::SpaceOf(const Event& event) { return event.memory == Memory::kArray ? kArrays : kPointers; }

void LiveSet::ApplyCuda(const Event& event, const EventIds& ids) {
  switch (event.kind) {
    case EventKind::kAlloc:
      Add(SpaceOf(event), event.address, event, ids);
      break;
    case EventKind::kFree:
      if (!Remove(SpaceOf(event), event.address, ids.thread)) Remove(kImported, event.address, ids.thread);
      break;
    case EventKind::kFreeFailed:
      Restore(event, ids.thread);
      break;
    case EventKind::kHostRegister:
      Add(kRegistered, event.address, event, ids);
      break;
    case EventKind::kHostUnregister:
      Remove(kRegistered, event.address, ids.thread);
      break;
    case EventKind::kPoolCreate:
      Add(kPools, event.handle, event, ids);
      break;
    case EventKind::kPoolDestroy:
      Remove(kPools, event.handle, ids.thread);
      break;
    case EventKind::kDeviceReset:
      Reset(event.device);
      break;
    default:
      ApplyVirtual(event, ids);
      break;
  }
}

void LiveSet::ApplyVirtual(const Event& event, const EventIds& ids) {
  switch (event.kind) {
    case EventKind::kAddressReserve:
      Add(kReservations, event.address, event, ids);
      break;
    case EventKind::kAddressFree:
      Remove(kReservations, event.address, ids.thread);
      break;
    case EventKind::kImport:
      if (event.address != 0) {
        Add(kImported, event.address, event, ids);
        break;
      }
      [[fallthrough]];
    case EventKind::kPhysicalCreate: {
      const uint32_t place = Add(kHandles, event.handle, event, ids);
      if (place != KeyIndex::kNone) slab_[place].refs = 1;
      break;
    }
    case EventKind::kPhysicalRetain: {
      const uint32_t place = index_.Find(kHandles, event.handle);
      if (place == KeyIndex::kNone) break;
      slab_[place].refs++;
      Hang(place, event, ids);
      break;
    }
    case EventKind::kImportClose:
      if (event.address != 0) {
        Remove(kImported, event.address, ids.thread);
        break;
      }
      [[fallthrough]];
    case EventKind::kPhysicalRelease:
      Release(event, ids);
      break;
    case EventKind::kMap: {
      const uint32_t place = Add(kMappings, event.address, event, ids);
      const uint32_t physical = index_.Find(kHandles, event.handle);
      if (place == KeyIndex::kNone || physical == KeyIndex::kNone) break;
      slab_[place].physical = physical + 1;
      slab_[physical].maps++;
      break;
    }
    case EventKind::kUnmap:
      Unmap(event, ids);
      break;
    default:
      ApplyModule(event, ids);
      break;
  }
}

void LiveSet::ApplyModule(const Event& event, const EventIds& ids) {
  const uint8_t kind = static_cast<uint8_t>(event.kind);
  if (kind == kContextCreate || kind == kModuleLoad) Add(kModules, ModuleKey(event), event, ids);
  if (kind == kContextDestroy || kind == kModuleUnload) Remove(kModules, ModuleKey(event), ids.thread);
}

uint32_t LiveSet::TakePlace(const Event& event, const EventIds& ids) {
  uint32_t place = static_cast<uint32_t>(slab_.size());
  if (free_.size() != 0) {
    place = free_[free_.size() - 1];
    free_.Resize(free_.size() - 1);
  } else if (!free_.Reserve(slab_.size() + 1) || !slab_.Push(Entry())) {  // room for every place to be given back
    lost_++;
    return KeyIndex::kNone;
  }
  slab_[place] = {event, ids, 0, 0, 0, 0, ++last_order_, false};
  return place;
}

uint32_t LiveSet::Add(Space space, uint64_t key, const Event& event, const EventIds& ids) {
  if (key == 0) return KeyIndex::kNone;
  const uint32_t old = index_.Remove(space, key);  // its end was lost
  if (old != KeyIndex::kNone) Free(old);
  const uint32_t place = TakePlace(event, ids);
  if (place == KeyIndex::kNone) return place;
  if (index_.Insert(space, key, place)) return place;
  lost_++;
  Free(place);
  return KeyIndex::kNone;
}

bool LiveSet::Remove(Space space, uint64_t key, uint32_t thread) {
  const uint32_t place = index_.Remove(space, key);
  if (place == KeyIndex::kNone) return false;
  if (space != kBlocks) undo_[thread % kUndos] = {slab_[place], thread, space};
  Free(place);
  return true;
}

// The call behind the thread's last event failed, so what it took away is still there.
void LiveSet::Restore(const Event& event, uint32_t thread) {
  Undo& undo = undo_[thread % kUndos];
  const Event& gone = undo.entry.event;
  const bool by_handle = undo.space == kHandles || undo.space == kPools;
  const uint64_t key = by_handle ? gone.handle : gone.address;
  if (undo.space == 0 || undo.thread != thread || key != (by_handle ? event.handle : event.address)) return;
  const Space space = undo.space;
  undo.space = Space{};
  if (index_.Find(space, key) != KeyIndex::kNone) return;
  const uint32_t place = Add(space, key, gone, undo.entry.ids);
  if (place == KeyIndex::kNone) return;
  slab_[place].order = undo.entry.order;
  slab_[place].torch_segment = undo.entry.torch_segment;
  slab_[place].refs = space == kHandles ? 1 : 0;
  if (space == kMappings && undo.entry.physical != 0 && slab_[undo.entry.physical - 1].order != 0) {
    slab_[place].physical = undo.entry.physical;
    slab_[undo.entry.physical - 1].maps++;
  }
}

void LiveSet::Hang(uint32_t physical, const Event& event, const EventIds& ids) {
  const uint32_t place = TakePlace(event, ids);
  if (place == KeyIndex::kNone) return;
  slab_[place].next = slab_[physical].next;
  slab_[physical].next = place + 1;
}

void LiveSet::DropHung(uint32_t physical) {
  const uint32_t first = slab_[physical].next;
  if (first == 0) return;
  slab_[physical].next = slab_[first - 1].next;
  slab_[first - 1].next = 0;
  Free(first - 1);
}

void LiveSet::Release(const Event& event, const EventIds& ids) {
  const uint32_t place = index_.Find(kHandles, event.handle);
  if (place == KeyIndex::kNone) return;
  Entry& entry = slab_[place];
  if (entry.refs > 1) {  // takes one Retain back
    entry.refs--;
    DropHung(place);
    return;
  }
  if (entry.maps == 0) {
    Remove(kHandles, event.handle, ids.thread);
    return;
  }
  entry.refs = 0;
  index_.Remove(kHandles, event.handle);  // the driver may give the number out again
  Hang(place, event, ids);
}

void LiveSet::DropIfUnused(uint32_t place) {
  if (slab_[place].refs == 0 && slab_[place].maps == 0) Free(place);
}

void LiveSet::Unmap(const Event& event, const EventIds& ids) {
  const uint64_t end = event.address + (event.size == 0 ? 1 : event.size);
  for (uint64_t at = event.address; at < end;) {
    const uint32_t place = index_.Find(kMappings, at);
    if (place == KeyIndex::kNone) return;
    const uint32_t physical = slab_[place].physical;
    const uint64_t size = slab_[place].event.size;
    Remove(kMappings, at, ids.thread);
    if (physical != 0) {
      slab_[physical - 1].maps--;
      DropIfUnused(physical - 1);
    }
    if (size == 0) return;
    at += size;
  }
}

void LiveSet::Reset(int16_t device) {
  for (uint32_t place = 0; place < slab_.size(); place++) {
    const Entry& entry = slab_[place];
    const Event event = entry.event;
    if (entry.order == 0 || event.device != device || event.memory == Memory::kHostPinned) continue;
    if (event.layer == Layer::kTorch) {
      index_.Remove(kBlocks, event.address);
    } else if (event.kind == EventKind::kAlloc) {
      index_.Remove(SpaceOf(event), event.address);
    } else if (event.kind == EventKind::kMap) {
      index_.Remove(kMappings, event.address);
    } else if (event.kind == EventKind::kPhysicalCreate) {
      if (index_.Find(kHandles, event.handle) == place) index_.Remove(kHandles, event.handle);
    } else {
      continue;
    }
    Free(place);
  }
}

void LiveSet::Free(uint32_t place) {
  while (slab_[place].next != 0) DropHung(place);
  slab_[place].order = 0;
  free_.Push(place);
}

bool LiveSet::Sort() {
  sorted_.Clear();
  if (!sorted_.Reserve(slab_.size())) return false;
  for (uint32_t place = 0; place < slab_.size(); place++) {
    if (slab_[place].order != 0) sorted_.Push({slab_[place].order, place});
  }
  std::sort(sorted_.data(), sorted_.data() + sorted_.size(),
            [](const Sorted& a, const Sorted& b) { return a.order < b.order; });
  return true;
}

}  // namespace gpumemshim::writer
