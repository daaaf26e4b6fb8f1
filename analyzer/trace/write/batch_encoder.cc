// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "trace/write/batch_encoder.h"

#include <algorithm>
#include <cstdint>

namespace gpumem {
namespace {

using WireBatch = trace::EventBatch;

void PutVarint(uint64_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>(value | 0x80));
  out->push_back(static_cast<char>(value));
}

uint64_t ZigZag(int64_t value) { return static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63); }

void PutField(int field, uint64_t value, std::string* out) {
  if (value == 0) return;
  PutVarint(static_cast<uint64_t>(field) << 3, out);
  PutVarint(value, out);
}

// How far all values can be shifted right without loss.
template <typename Get>
uint32_t CommonShift(const std::vector<EventRow>& rows, Get get) {
  uint64_t bits = 0;
  for (const EventRow& row : rows) bits |= get(row);
  return bits == 0 ? 0 : static_cast<uint32_t>(__builtin_ctzll(bits));
}

class ColumnWriter {
 public:
  ColumnWriter(const std::vector<EventRow>& rows, std::string* out) : rows_(rows), out_(out) {}

  // None where all values are 0, one where all are equal.
  template <typename Get>
  void Put(int field, Get get) {
    values_.clear();
    for (const EventRow& row : rows_) values_.push_back(get(row));
    Write(field);
  }

  // Differences of what `get` gives, the first one from `before`.
  template <typename Get>
  void PutDeltas(int field, uint64_t before, Get get) {
    values_.clear();
    for (const EventRow& row : rows_) {
      const uint64_t value = get(row);
      values_.push_back(ZigZag(static_cast<int64_t>(value - before)));
      before = value;
    }
    Write(field);
  }

 private:
  void Write(int field) {
    const uint64_t first = values_.front();
    const bool is_one = std::all_of(values_.begin(), values_.end(), [first](uint64_t value) { return value == first; });
    if (is_one && first == 0) return;
    packed_.clear();
    for (size_t i = 0; i < (is_one ? 1 : values_.size()); ++i) PutVarint(values_[i], &packed_);
    PutVarint(static_cast<uint64_t>(field) << 3 | 2, out_);
    PutVarint(packed_.size(), out_);
    out_->append(packed_);
  }

  const std::vector<EventRow>& rows_;
  std::string* out_;
  std::vector<uint64_t> values_;
  std::string packed_;
};

}  // namespace

std::string BatchEncoder::Serialize() const {
  std::string out;
  if (rows_.empty()) return out;
  const auto time = [](const EventRow& row) { return row.time_ns; };
  const auto address = [](const EventRow& row) { return row.address; };
  const auto size = [](const EventRow& row) { return row.size; };
  const uint32_t time_shift = CommonShift(rows_, time);
  const uint32_t address_shift = CommonShift(rows_, address);
  const uint32_t size_shift = CommonShift(rows_, size);
  PutField(WireBatch::kCountFieldNumber, rows_.size(), &out);
  PutField(WireBatch::kFirstTimeNsFieldNumber, rows_[0].time_ns, &out);
  PutField(WireBatch::kTimeShiftFieldNumber, time_shift, &out);
  PutField(WireBatch::kAddressShiftFieldNumber, address_shift, &out);
  PutField(WireBatch::kSizeShiftFieldNumber, size_shift, &out);
  ColumnWriter columns(rows_, &out);
  columns.PutDeltas(WireBatch::kTimeDeltaNsFieldNumber, rows_[0].time_ns >> time_shift,
                    [=](const EventRow& row) { return row.time_ns >> time_shift; });
  columns.Put(WireBatch::kKindFieldNumber, [](const EventRow& row) { return static_cast<uint64_t>(row.kind); });
  columns.Put(WireBatch::kLayerFieldNumber, [](const EventRow& row) { return static_cast<uint64_t>(row.layer); });
  columns.Put(WireBatch::kMemoryFieldNumber, [](const EventRow& row) { return static_cast<uint64_t>(row.memory); });
  columns.Put(WireBatch::kDeviceFieldNumber, [](const EventRow& row) { return ZigZag(row.device); });
  columns.PutDeltas(WireBatch::kAddressDeltaFieldNumber, 0,
                    [=](const EventRow& row) { return row.address >> address_shift; });
  columns.Put(WireBatch::kSizeFieldNumber, [=](const EventRow& row) { return row.size >> size_shift; });
  columns.Put(WireBatch::kRequestedSizeFieldNumber, [](const EventRow& row) { return row.requested_size; });
  columns.Put(WireBatch::kStreamFieldNumber, [](const EventRow& row) { return row.stream; });
  columns.Put(WireBatch::kHandleFieldNumber, [](const EventRow& row) { return row.handle; });
  columns.Put(WireBatch::kThreadFieldNumber, [](const EventRow& row) { return row.thread; });
  columns.Put(WireBatch::kStackFieldNumber, [](const EventRow& row) { return row.stack; });
  columns.Put(WireBatch::kTagFieldNumber, [](const EventRow& row) { return row.tag; });
  columns.Put(WireBatch::kResultFieldNumber, [](const EventRow& row) { return ZigZag(row.result); });
  columns.Put(WireBatch::kDurationNsFieldNumber, [](const EventRow& row) { return row.duration_ns; });
  columns.Put(WireBatch::kApiFieldNumber, [](const EventRow& row) { return row.api; });
  columns.Put(WireBatch::kTextFieldNumber, [](const EventRow& row) { return row.text; });
  return out;
}

}  // namespace gpumem
