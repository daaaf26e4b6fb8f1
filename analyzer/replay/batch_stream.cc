// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/batch_stream.h"

#include <utility>

namespace gpumem {

void BatchStream::ReadAhead() {
  has_following_ = false;
  items_.clear();
  following_carried_.clear();
  if (found_next_section_) return;
  for (;;) {
    Item item;
    item.type = reader_->Next();
    switch (item.type) {
      case ItemType::kEvents:
        reader_->SwapBatch(&following_);
        following_place_ = reader_->place();
        has_following_ = true;
        return;
      case ItemType::kCarried:
        if (reader_->carried().begins) following_carried_.clear();
        following_carried_.push_back(reader_->carried());
        continue;
      case ItemType::kHeader:
        found_next_section_ = true;
        return;
      case ItemType::kEndOfStream:
        return;
      case ItemType::kCounters:
        item.counters = reader_->counters();
        break;
      case ItemType::kLosses:
        item.losses = reader_->losses();
        break;
      case ItemType::kEnd:
        item.end = reader_->end();
        break;
    }
    items_.push_back(std::move(item));
  }
}

bool BatchStream::Advance() {
  if (!has_following_) return false;
  std::swap(current_, following_);
  std::swap(carried_, following_carried_);
  current_place_ = following_place_;
  ReadAhead();
  return true;
}

}  // namespace gpumem
