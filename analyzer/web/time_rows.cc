// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "web/time_rows.h"

#include <algorithm>
#include <iterator>

namespace gpumem {

void TimeRows::Merge(const TimeRow& next, TimeRow* row) {
  const TimeRow before = *row;
  if (Height(next) > Height(before)) *row = next;
  row->first_event = before.first_event;
  row->most_reserved = std::max(before.most_reserved, next.most_reserved);
  row->most_total = std::max(before.most_total, next.most_total);
}

// Rows two by two become one.
void TimeRows::Halve() {
  const size_t half = (rows_.size() + 1) / 2;
  for (size_t i = 0; i < half; ++i) {
    TimeRow row = rows_[2 * i];
    if (2 * i + 1 < rows_.size()) Merge(rows_[2 * i + 1], &row);
    rows_[i] = row;
  }
  rows_.resize(half);
  stretch_ *= 2;
}

void TimeRows::Observe(uint64_t event, uint64_t time_ns, const MeasureValues& values, bool is_single) {
  const bool is_change = values.allocated != last_.values.allocated || values.reserved != last_.values.reserved ||
                         values.other != last_.values.other || values.total != last_.values.total;
  if (!is_change && !empty()) return;
  last_ = {event, event, time_ns, values, values.reserved, values.total};
  if (is_single) {
    singles_.push_back(last_);
    in_last_ = stretch_;  // no stretch goes on behind it
    return;
  }
  if (!rows_.empty() && in_last_ < stretch_) {
    Merge(last_, &rows_.back());
    ++in_last_;
    return;
  }
  if (rows_.size() == room_) {
    room_ = most_;
    while (rows_.size() > most_ / 2) Halve();
  }
  rows_.push_back(last_);
  in_last_ = 1;
}

void TimeRows::Pin(uint64_t event, uint64_t time_ns, const MeasureValues& values) {
  const auto single = std::lower_bound(singles_.begin(), singles_.end(), event,
                                       [](const TimeRow& row, uint64_t number) { return row.event < number; });
  if (single != singles_.end() && single->event == event) return;  // as it was
  const auto behind = std::upper_bound(rows_.begin(), rows_.end(), event,
                                       [](uint64_t number, const TimeRow& row) { return number < row.first_event; });
  if (behind == rows_.begin()) return;
  TimeRow& row = *std::prev(behind);
  row.event = event;
  row.time_ns = time_ns;
  row.values = values;
}

void TimeRows::Finish() {
  if (!singles_.empty()) {
    rows_.insert(rows_.end(), singles_.begin(), singles_.end());
    std::stable_sort(rows_.begin(), rows_.end(), [](const TimeRow& a, const TimeRow& b) { return a.event < b.event; });
  }
  if (!rows_.empty() && rows_.back().event != last_.event) rows_.push_back(last_);
}

size_t TimeRows::At(uint64_t event) const {
  const auto found = std::lower_bound(rows_.begin(), rows_.end(), event,
                                      [](const TimeRow& row, uint64_t number) { return row.event < number; });
  return static_cast<size_t>(found - rows_.begin());
}

}  // namespace gpumem
