// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A look at what comes, which leaves no trace: neither counts of what is missing, nor the end that was seen.

#include <utility>

#include "trace/reader.h"

namespace gpumem {

void TraceReader::LookAhead(const std::function<bool(const EventBatch&)>& look) {
  const Place place = place_;
  const ItemType type = type_;
  const bool ended = ended_, continued = continued_, again = reading_again_, after_gap = batch_after_gap_;
  const uint64_t last_time_ns = last_time_ns_, events_read = events_read_, next_sequence = next_sequence_;
  const trace::Losses losses = losses_;
  const trace::Counters counters = counters_;
  reading_again_ = stays_in_section_ = true;
  EventBatch kept;
  SwapBatch(&kept);
  while (Next() != ItemType::kEndOfStream && type_ != ItemType::kHeader) {
    if (type_ == ItemType::kEvents && !look(batch_)) break;
  }
  stays_in_section_ = false;
  Seek(place);
  Next();
  SwapBatch(&kept);
  type_ = type;
  reading_again_ = again;
  batch_after_gap_ = after_gap;
  ended_ = ended;
  continued_ = continued;
  last_time_ns_ = last_time_ns;
  events_read_ = events_read;
  next_sequence_ = next_sequence;
  losses_ = losses;
  counters_ = counters;
}

}  // namespace gpumem
