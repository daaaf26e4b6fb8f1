// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "trace/event_batch.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "trace/limits.h"
#include "trace/wire.h"

namespace gpumem {
namespace {

using Batch = trace::EventBatch;

// Decodes packed varints. Eight bytes without a continuation bit, the common case, are eight values.
bool AppendPacked(absl::string_view packed, size_t limit, std::vector<uint64_t>* values) {
  const char* p = packed.data();
  const char* const end = p + packed.size();
  size_t n = values->size();
  values->resize(std::min(limit, n + packed.size()));
  uint64_t* const out = values->data();
  const size_t room = values->size();
  while (p != end) {
    if (end - p >= 8 && room - n >= 8) {
      uint64_t word;
      std::memcpy(&word, p, 8);
      if ((word & 0x8080808080808080u) == 0) {
        for (int i = 0; i < 8; ++i) out[n + i] = static_cast<uint8_t>(p[i]);
        n += 8;
        p += 8;
        continue;
      }
    }
    if (n == room) return false;
    const uint64_t low = static_cast<uint8_t>(*p);
    if (low < 0x80) {
      out[n] = low;
      ++p;
    } else if (end - p >= 2 && static_cast<uint8_t>(p[1]) < 0x80) {
      out[n] = (low & 0x7f) | static_cast<uint64_t>(static_cast<uint8_t>(p[1])) << 7;
      p += 2;
    } else if (!ReadVarint(&p, end, &out[n])) {
      return false;
    }
    ++n;
  }
  values->resize(n);
  return true;
}

bool IsSigned(uint32_t field) {
  return field == Batch::kTimeDeltaNsFieldNumber || field == Batch::kDeviceFieldNumber ||
         field == Batch::kAddressDeltaFieldNumber || field == Batch::kResultFieldNumber;
}

}  // namespace

Column* EventBatch::ColumnOf(uint32_t field) {
  switch (field) {
    case Batch::kTimeDeltaNsFieldNumber:
      return &time_;
    case Batch::kKindFieldNumber:
      return &kind_;
    case Batch::kLayerFieldNumber:
      return &layer_;
    case Batch::kMemoryFieldNumber:
      return &memory_;
    case Batch::kDeviceFieldNumber:
      return &device_;
    case Batch::kAddressDeltaFieldNumber:
      return &address_;
    case Batch::kSizeFieldNumber:
      return &size_;
    case Batch::kRequestedSizeFieldNumber:
      return &requested_size_;
    case Batch::kStreamFieldNumber:
      return &stream_;
    case Batch::kHandleFieldNumber:
      return &handle_;
    case Batch::kThreadFieldNumber:
      return &thread_;
    case Batch::kStackFieldNumber:
      return &stack_;
    case Batch::kTagFieldNumber:
      return &tag_;
    case Batch::kResultFieldNumber:
      return &result_;
    case Batch::kDurationNsFieldNumber:
      return &duration_ns_;
    case Batch::kApiFieldNumber:
      return &api_;
    case Batch::kTextFieldNumber:
      return &text_;
    default:
      return nullptr;
  }
}

uint32_t* EventBatch::ShiftOf(uint32_t field) {
  switch (field) {
    case Batch::kTimeShiftFieldNumber:
      return &time_shift_;
    case Batch::kAddressShiftFieldNumber:
      return &address_shift_;
    case Batch::kSizeShiftFieldNumber:
      return &size_shift_;
    default:
      return nullptr;
  }
}

absl::Status EventBatch::Decode(absl::string_view message, uint64_t most) {
  absl::Status status = DecodeColumns(message, most);
  if (!status.ok()) count_ = 0;
  return status;
}

absl::Status EventBatch::DecodeColumns(absl::string_view message, uint64_t most) {
  count_ = 0;
  first_time_ns_ = 0;
  time_shift_ = address_shift_ = size_shift_ = 0;
  for (uint32_t field = 0; field <= Batch::kTextFieldNumber; ++field) {
    if (Column* column = ColumnOf(field)) column->values_.clear();
  }
  // No column may be longer than the message, so this bounds memory too.
  const size_t limit = std::min<size_t>(kMaxEvents, message.size());
  WireReader reader(message);
  for (WireField field; reader.Next(&field);) {
    Column* const column = ColumnOf(field.number);
    if (column != nullptr && field.type == WireType::kBytes) {
      if (!AppendPacked(field.bytes, limit, &column->values_)) {
        return absl::DataLossError(absl::StrCat("column ", field.number, " of an event batch is broken"));
      }
    } else if (field.type != WireType::kVarint) {
      continue;  // a field of a newer version
    } else if (column != nullptr) {
      if (column->values_.size() >= limit) return absl::DataLossError("a column of an event batch is too long");
      column->values_.push_back(field.varint);
    } else if (field.number == Batch::kCountFieldNumber) {
      count_ = field.varint;
    } else if (field.number == Batch::kFirstTimeNsFieldNumber) {
      first_time_ns_ = field.varint;
    } else if (uint32_t* const shift = ShiftOf(field.number); shift != nullptr) {
      if (field.varint > 63) return absl::DataLossError("a shift of an event batch is out of range");
      *shift = static_cast<uint32_t>(field.varint);
    }
  }
  if (!reader.ok()) return absl::DataLossError("an event batch is not a protobuf message");
  most = std::min(most, kAlwaysEvents + message.size() * kMaxEventsPerByte);
  if (count_ > kMaxEvents || count_ > most) {
    return absl::DataLossError(absl::StrCat("an event batch of ", message.size(), " bytes claims ", count_, " events; ",
                                            most, " are allowed"));
  }
  return Finish();
}

// Checks the columns' lengths, then turns deltas and shifts into values.
absl::Status EventBatch::Finish() {
  for (uint32_t field = 0; field <= Batch::kTextFieldNumber; ++field) {
    Column* const column = ColumnOf(field);
    if (column == nullptr) continue;
    std::vector<uint64_t>& values = column->values_;
    if (values.empty()) values.push_back(0);
    if (values.size() != 1 && values.size() != count_) {
      return absl::DataLossError(
          absl::StrCat("column ", field, " of an event batch has ", values.size(), " values for ", count_, " events"));
    }
    column->mask_ = values.size() == 1 ? 0 : ~size_t{0};
    if (IsSigned(field)) {
      for (uint64_t& value : values) value = static_cast<uint64_t>(ZigZagDecode(value));
    }
  }
  // Deltas add up, so these two columns cannot stay a single value unless it is 0 or there is one event.
  for (Column* column : {&time_, &address_}) {
    if (column->mask_ == 0 && count_ > 1 && column->values_[0] != 0) {
      column->values_.resize(count_, column->values_[0]);
      column->mask_ = ~size_t{0};
    }
  }
  uint64_t time = first_time_ns_;
  for (uint64_t& value : time_.values_) value = time += value << time_shift_;
  uint64_t address = 0;
  for (uint64_t& value : address_.values_) value = (address += value) << address_shift_;
  if (size_shift_ != 0) {
    for (uint64_t& value : size_.values_) value <<= size_shift_;
  }
  return absl::OkStatus();
}

EventRow EventBatch::Row(size_t i) const {
  EventRow row;
  row.time_ns = time_ns(i);
  row.kind = static_cast<trace::EventKind>(kind(i));
  row.layer = static_cast<trace::Layer>(layer(i));
  row.memory = static_cast<trace::Memory>(memory(i));
  row.device = device(i);
  row.address = address(i);
  row.size = size(i);
  row.requested_size = requested_size(i);
  row.stream = stream(i);
  row.handle = handle(i);
  row.thread = thread(i);
  row.stack = stack(i);
  row.tag = tag(i);
  row.result = result(i);
  row.duration_ns = duration_ns(i);
  row.api = api(i);
  row.text = text(i);
  return row;
}

}  // namespace gpumem
