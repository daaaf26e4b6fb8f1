// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Virtual memory management: reservations, physical handles, mappings.

#include <iterator>
#include <utility>

#include "replay/state/cuda_memory.h"

namespace gpumem {

uint32_t CudaMemory::Reserve(const EventRow& row, Accounts* accounts) {
  if (row.address == 0 || row.size == 0) return SlotOfDevice(row.device);
  RemoveOverlaps(row.address, row.address + row.size, accounts);
  Reservation reservation;
  reservation.address = row.address;
  reservation.size = row.size;
  const uint32_t place = reservations_.Add(reservation);
  AddRange(row.address, row.size, SegmentRef{place | SegmentRef::kReservationBit});
  return SlotOfDevice(row.device);
}

uint32_t CudaMemory::Unreserve(const EventRow& row, const Lookahead& ahead, Accounts* accounts) {
  const auto it = ranges_.find(row.address);
  if (it != ranges_.end() && it->second.ref.is_reservation() && !CorrectionFollows(row, ahead)) {
    RemoveReservation(it->second.ref.place(), accounts);
  }
  return SlotOfDevice(row.device);
}

void CudaMemory::RemoveReservation(uint32_t place, Accounts* accounts) {
  const Reservation reservation = reservations_[place];
  reservations_[place].implied = false;  // or the last mapping would remove it a second time
  EraseMappings(reservation.address, reservation.address + reservation.size, accounts);
  if (reservation.live_blocks > 0)
    lost_ranges_.emplace_back(reservation.address, reservation.address + reservation.size);
  RemoveRange(reservation.address);
  reservations_.Remove(place);
}

uint32_t CudaMemory::FindOrImplyReservation(uint64_t address, uint64_t size, Accounts* accounts) {
  const SegmentRef around = FindRange(address);
  if (around.is_reservation()) return around.place();
  RemoveOverlaps(address, address + size, accounts);
  Reservation reservation;
  reservation.address = address;
  reservation.size = size;
  reservation.implied = true;
  const uint32_t place = reservations_.Add(reservation);
  AddRange(address, size, SegmentRef{place | SegmentRef::kReservationBit});
  return place;
}

void CudaMemory::MakeTorch(uint32_t reservation, Accounts* accounts) {
  Reservation& range = reservations_[reservation];
  range.torch = true;
  const uint64_t end = range.address + range.size;
  for (auto it = mappings_.lower_bound(range.address); it != mappings_.end() && it->first < end; ++it) {
    SetTorch(it->second.physical, true, accounts);
    accounts->work.Spend(1);
  }
}

void CudaMemory::CountPhysical(const PhysicalHandle& physical, int64_t sign, Accounts* accounts) {
  const int64_t bytes = sign * static_cast<int64_t>(physical.size);
  if (!Matches(physical.layer)) return;
  if (physical.imported) {
    Accounts::AddTo(bytes, &accounts->imported, &accounts->imported_peak);
  } else if (physical.memory == trace::PHYSICAL_HOST) {
    Accounts::AddTo(bytes, &accounts->host_pinned, &accounts->host_pinned_peak);
  } else if (physical.counted && physical.torch) {
    accounts->AddReserved(physical.slot, bytes);
  } else if (InOther(physical)) {
    accounts->AddOther(physical.slot, bytes);
  }
}

void CudaMemory::SetTorch(uint32_t physical, bool torch, Accounts* accounts) {
  PhysicalHandle& handle = physicals_[physical];
  if (handle.torch == torch || !handle.counted) return;
  CountPhysical(handle, -1, accounts);
  handle.torch = torch;
  CountPhysical(handle, 1, accounts);
}

uint32_t CudaMemory::AddPhysical(const PhysicalHandle& physical, Accounts* accounts) {
  const uint32_t place = physicals_.Add(physical);
  CountPhysical(physical, 1, accounts);
  if (observer_ != nullptr) observer_->OnAlloc(Held::kPhysical, place);
  if (physical.refs == 0) return place;
  const auto [it, is_new] = handle_index_.try_emplace(physical.handle, place);
  if (!is_new) {
    // The number was given out again, so its release was lost.
    ++accounts->implicit_frees;
    const uint32_t old = std::exchange(it->second, place);
    physicals_[old].refs = 0;
    DropIfUnused(old, accounts);
  }
  return place;
}

uint32_t CudaMemory::Create(const EventRow& row, const Lookahead& ahead, Accounts* accounts) {
  PhysicalHandle physical;
  physical.handle = row.handle;
  physical.size = row.size;
  physical.stack = row.stack;
  physical.time_ns = row.time_ns;
  physical.api = row.api;
  physical.refs = 1;
  physical.slot = SlotOfDevice(row.device);
  physical.thread = row.thread;
  physical.communicator = open_communicators_.MakerOf(row.thread, physical.slot);
  physical.layer = static_cast<uint8_t>(row.layer);
  const bool is_special = row.memory == trace::PHYSICAL_HOST || row.memory == trace::MULTICAST;
  physical.memory = is_special ? static_cast<uint8_t>(row.memory) : uint8_t{trace::PHYSICAL};
  physical.counted = physical.memory == trace::PHYSICAL && Matches(physical.layer);
  if (physical.counted && HandleBecomesSegment(row, ahead)) {
    // Would be in `other` for a moment, or in `reserved` without a place.
    physical.torch = physical.awaits_map = true;
    physical.counted = false;
  }
  AddPhysical(physical, accounts);
  return physical.slot;
}

uint32_t CudaMemory::ImportHandle(const EventRow& row, Accounts* accounts) {
  PhysicalHandle physical;
  physical.handle = HandleKey(row);
  physical.size = row.size;
  physical.stack = row.stack;
  physical.time_ns = row.time_ns;
  physical.api = row.api;
  physical.refs = 1;
  physical.slot = SlotOfDevice(row.device);
  physical.thread = row.thread;
  physical.layer = static_cast<uint8_t>(row.layer);
  physical.memory = row.memory == trace::EXTERNAL ? uint8_t{trace::EXTERNAL} : uint8_t{trace::PHYSICAL};
  physical.imported = true;
  AddPhysical(physical, accounts);
  return physical.slot;
}

uint32_t CudaMemory::Retain(const EventRow& row) {
  if (const auto it = handle_index_.find(row.handle); it != handle_index_.end()) {
    ++physicals_[it->second].refs;
    return physicals_[it->second].slot;
  }
  // A mapping whose handle was released is given a handle again.
  auto mapping = mappings_.upper_bound(row.address);
  if (mapping == mappings_.begin()) return SlotOfDevice(row.device);
  --mapping;
  PhysicalHandle& physical = physicals_[mapping->second.physical];
  if (row.address - mapping->first < mapping->second.size && physical.refs == 0) {
    physical.refs = 1;
    physical.handle = row.handle;
    handle_index_[row.handle] = mapping->second.physical;
  }
  return physical.slot;
}

uint32_t CudaMemory::Release(const EventRow& row, const Lookahead& ahead, Accounts* accounts) {
  const auto it = handle_index_.find(HandleKey(row));
  if (it == handle_index_.end()) {
    const uint32_t unknown = SlotOfDevice(row.device);
    if (CorrectionFollows(row, ahead)) return unknown;
    if (nameless_handles_ != 0) {
      --nameless_handles_;  // of a mapping from before the recording
    } else {
      ++accounts->device(unknown).unknown_frees;
    }
    return unknown;
  }
  const uint32_t place = it->second;
  const uint32_t slot = physicals_[place].slot;
  if (CorrectionFollows(row, ahead)) return slot;
  if (--physicals_[place].refs == 0) {
    handle_index_.erase(it);
    DropIfUnused(place, accounts);
  }
  return slot;
}

void CudaMemory::DropIfUnused(uint32_t physical, Accounts* accounts) {
  const PhysicalHandle handle = physicals_[physical];
  if (handle.refs != 0 || handle.maps != 0 || handle.holds != 0) return;
  if (observer_ != nullptr) observer_->OnFree(Held::kPhysical, physical);
  CountPhysical(handle, -1, accounts);
  if (handle.handle == 0) ++nameless_handles_;
  physicals_.Remove(physical);
  if (handle.memory == trace::MULTICAST) LetGo(&multicast_holds_, handle.handle, kAnySlot, UINT64_MAX, accounts);
}

uint32_t CudaMemory::Map(const EventRow& row, const Lookahead& ahead, Accounts* accounts) {
  if (row.address == 0 || row.size == 0) return SlotOfDevice(row.device);
  uint32_t place;
  if (const auto it = handle_index_.find(HandleKey(row)); it != handle_index_.end()) {
    place = it->second;
  } else {
    // Its creation was lost, or lies before the trace; the mapping proves that the memory is there.
    ++accounts->unknown_maps;
    PhysicalHandle physical;
    physical.handle = HandleKey(row);
    physical.size = row.size;
    physical.stack = row.stack;
    physical.time_ns = row.time_ns;
    physical.api = row.api;
    physical.slot = SlotOfDevice(row.device);
    physical.thread = row.thread;
    physical.layer = static_cast<uint8_t>(row.layer);
    physical.imported = row.memory == trace::EXTERNAL;
    physical.memory = physical.imported ? uint8_t{trace::EXTERNAL} : uint8_t{trace::PHYSICAL};
    physical.counted = !physical.imported && Matches(physical.layer);
    place = AddPhysical(physical, accounts);
  }
  if (physicals_[place].imported && physicals_[place].size < row.size) {
    // The call that imports a handle does not say how much it is; its mapping does.
    CountPhysical(physicals_[place], -1, accounts);
    physicals_[place].size = row.size;
    CountPhysical(physicals_[place], 1, accounts);
  }
  if (std::exchange(physicals_[place].awaits_map, false)) {
    physicals_[place].counted = true;
    CountPhysical(physicals_[place], 1, accounts);
  }
  ++physicals_[place].maps;  // first, so that the handle outlives what the next lines remove
  EraseMappings(row.address, row.address + row.size, accounts);
  const uint32_t reservation = FindOrImplyReservation(row.address, row.size, accounts);
  mappings_[row.address] = {row.size, place, reservation};
  const Reservation& range = reservations_[reservation];
  if (!range.torch && (BecomesSegment(row.thread, range.address, range.size, ahead) || GoesOnWithSegment(range)))
    MakeTorch(reservation, accounts);
  if (range.torch || physicals_[place].maps == 1) SetTorch(place, range.torch, accounts);
  return physicals_[place].slot;
}

// Of an expandable segment from before the recording only mappings are known. It grows where it ends, and ranges of
// different owners do not touch: each reserves more than it maps.
bool CudaMemory::GoesOnWithSegment(const Reservation& range) const {
  if (!range.implied) return false;
  const auto is_segment = [this](const Range& other) {
    return other.ref.is_reservation() && reservations_[other.ref.place()].implied &&
           reservations_[other.ref.place()].torch;
  };
  const auto at = ranges_.find(range.address);
  if (at == ranges_.end()) return false;
  const auto after = std::next(at);
  if (after != ranges_.end() && after->first == at->second.end && is_segment(after->second)) return true;
  return at != ranges_.begin() && std::prev(at)->second.end == range.address && is_segment(std::prev(at)->second);
}

void CudaMemory::EraseMapping(absl::btree_map<uint64_t, Mapping>::iterator it, Accounts* accounts) {
  const Mapping mapping = it->second;
  mappings_.erase(it);
  if (physicals_[mapping.physical].maps > 0) --physicals_[mapping.physical].maps;
  DropIfUnused(mapping.physical, accounts);
  if (reservations_[mapping.reservation].implied) RemoveReservation(mapping.reservation, accounts);
}

void CudaMemory::EraseMappings(uint64_t start, uint64_t end, Accounts* accounts) {
  if (end < start) end = UINT64_MAX;
  for (auto it = mappings_.lower_bound(start); it != mappings_.end() && it->first < end;
       it = mappings_.lower_bound(start)) {
    EraseMapping(it, accounts);
  }
}

uint32_t CudaMemory::Unmap(const EventRow& row, const Lookahead& ahead, Accounts* accounts) {
  uint32_t slot = SlotOfDevice(row.device);
  if (CorrectionFollows(row, ahead)) return slot;
  const uint64_t end = row.address + (row.size == 0 ? 1 : row.size);
  for (auto it = mappings_.lower_bound(row.address); it != mappings_.end() && it->first < end; ++it) {
    const uint32_t place = it->second.physical;
    const PhysicalHandle& physical = physicals_[place];
    slot = physical.slot;
    // A segment's handle leaves `reserved` when its memory goes, which is at once unless somebody keeps it.
    if (physical.torch && physical.maps == 1 && physical.refs > 0 &&
        !(physical.refs == 1 && ReleaseFollows(row.thread, physical.handle, ahead))) {
      SetTorch(place, false, accounts);
    }
  }
  EraseMappings(row.address, end, accounts);
  return slot;
}

}  // namespace gpumem
