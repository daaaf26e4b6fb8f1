// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/state/batch_stream.h"

#include <algorithm>
#include <utility>

#include "replay/state/accounts.h"
#include "replay/state/existing_memory.h"

namespace gpumem {

// Totals from before a gap say nothing of what is behind it.
void BatchStream::NoteGap() {
  if (std::exchange(following_entry_.after_gap, true)) return;
  following_entry_.totals.clear();
  if (current_.count() != 0) following_entry_.gap_ns = current_.time_ns(current_.count() - 1);
}

void BatchStream::AddTotals(const trace::Counters& counters) {
  for (const trace::DeviceCounters& device : counters.devices()) {
    if (!device.has_torch_allocated_bytes() || !device.has_torch_reserved_bytes()) continue;
    MeasureValues& totals = following_entry_.totals[SlotOfDevice(device.device())];
    totals.allocated = device.torch_allocated_bytes();
    totals.reserved = device.torch_reserved_bytes();
  }
}

void BatchStream::AddLost(const trace::Losses& losses) {
  lost_.allocs = std::max(lost_.allocs, losses.dropped_allocs());
  lost_.others = std::max(lost_.others, losses.dropped_frees() + losses.unwritten_events());
}

void BatchStream::ReadAhead() {
  has_following_ = false;
  items_.clear();
  following_entry_ = {};
  ReadOn();
}

void BatchStream::ReadOn() {
  if (found_next_section_ || has_following_) return;
  for (;;) {
    Item item;
    item.type = reader_->Next();
    switch (item.type) {
      case ItemType::kEvents:
        if (reader_->after_gap()) NoteGap();
        reader_->SwapBatch(&following_);
        following_place_ = reader_->place();
        has_following_ = true;
        if (ExistingMemory::IsAnnouncedBy(following_)) TakeExisting();
        return;
      case ItemType::kLiveSnapshot:
        if (reader_->live_snapshot().begins) following_entry_ = {};
        following_entry_.live_snapshot.push_back(reader_->live_snapshot());
        continue;
      case ItemType::kHeader:
        found_next_section_ = true;
        following_entry_.lost = lost_;
        return;
      case ItemType::kEndOfStream:
        if (reader_->gap_pending()) NoteGap();
        following_entry_.lost = lost_;
        return;
      case ItemType::kCounters:
        item.counters = reader_->counters();
        if (reader_->gap_pending()) NoteGap();
        AddTotals(item.counters);
        break;
      case ItemType::kLosses:
        item.losses = reader_->losses();
        AddLost(item.losses);
        break;
      case ItemType::kCupti:
        item.cupti = reader_->cupti();
        break;
      case ItemType::kEnd:
        item.end = reader_->end();
        break;
    }
    items_.push_back(std::move(item));
  }
}

// What is recorded after the beginning of a recording held at its beginning.
void BatchStream::TakeExisting() {
  ExistingMemory existing(following_);
  if (!existing.is_complete()) {
    reader_->LookAhead([&existing](const EventBatch& batch) {
      existing.Take(batch);
      return !existing.is_complete();
    });
  }
  lacks_existing_ |= !existing.is_complete();
  if (existing.is_known()) following_entry_.live_snapshot = {existing.Make()};
}

bool BatchStream::Advance() {
  if (!has_following_) return false;
  std::swap(current_, following_);
  std::swap(entry_, following_entry_);
  current_place_ = following_place_;
  ReadAhead();
  entry_.lost = lost_;
  return true;
}

}  // namespace gpumem
