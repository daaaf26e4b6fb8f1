// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// EventBatch: decoded columns of trace.proto's EventBatch. A column that the file stores as no or one value costs
// nothing: it is read with mask 0. Decode reuses the memory of the batch before. Not thread-safe; owns its columns.
//
//   EventBatch batch;
//   GPUMEM_RETURN_IF_ERROR(batch.Decode(bytes));
//   for (size_t i = 0; i < batch.count(); ++i) Use(batch.time_ns(i), batch.kind(i), batch.address(i));

#ifndef GPUMEM_ANALYZER_TRACE_EVENT_BATCH_H_
#define GPUMEM_ANALYZER_TRACE_EVENT_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "gpumem/trace.pb.h"

namespace gpumem {

// TraceGap: packets that are missing from a damaged file, in one place. A value.
struct TraceGap {
  uint64_t packets = 0;
  bool events_known = false;  // how many were in them
  uint64_t events = 0;
  uint64_t from_ns = 0, to_ns = 0;  // of the events around it; 0 = there is none on that side

  bool MayHoldEvents() const { return !events_known || events != 0; }
};

// The kinds that are no call: what the program says about itself.
constexpr bool IsMark(uint32_t kind) { return kind >= trace::MARK && kind <= trace::RECORDING_STOP; }

// The kinds by which the program's own objects say of memory what it is for, or how PyTorch's allocator is to treat it.
// They change no memory.
constexpr bool IsLabel(uint32_t kind) {
  return (kind >= trace::TENSOR && kind <= trace::OPTIMIZER_STEP) || kind == trace::ALLOCATOR_USE ||
         kind == trace::TENSOR_DATA;
}
// In place of a function's name: nobody saw the call, since it came before recording began.
constexpr uint32_t kExistingApi = UINT32_MAX;

// What existed when recording began: told behind that, in force from there on (replay/state/batch_stream.h).
constexpr bool IsExisting(uint32_t kind) { return kind == trace::EXISTING || kind == trace::EXISTING_END; }
// Whose events may have a text.
constexpr bool HasText(uint32_t kind) { return IsMark(kind) || kind == trace::TENSOR; }

// One column: `count` values, or one value that stands for all.
class Column {
 public:
  uint64_t operator[](size_t i) const { return values_[i & mask_]; }

 private:
  friend class EventBatch;
  std::vector<uint64_t> values_{0};
  size_t mask_ = 0;
};

// One event by itself, for code that is not on the hot path.
struct EventRow {
  uint64_t time_ns = 0;
  trace::EventKind kind = trace::EVENT_KIND_UNSPECIFIED;
  trace::Layer layer = trace::LAYER_UNSPECIFIED;
  trace::Memory memory = trace::DEVICE;
  int device = -1;
  uint64_t address = 0;
  uint64_t size = 0;
  uint64_t requested_size = 0;
  uint64_t stream = 0;
  uint64_t handle = 0;
  uint32_t thread = 0;
  uint64_t stack = 0;
  uint32_t tag = 0;
  int result = 0;
  uint32_t duration_ns = 0;
  uint32_t api = 0;
  uint32_t text = 0;
};

class EventBatch {
 public:
  // Most events that a batch may hold.
  static constexpr uint32_t kMaxEvents = 1u << 22;

  // Fails with DataLoss where columns and count disagree, a varint is broken or there are more events than `most`. The
  // batch is empty afterwards.
  absl::Status Decode(absl::string_view message, uint64_t most = kMaxEvents);

  size_t count() const { return count_; }
  uint64_t time_ns(size_t i) const { return time_[i]; }
  uint32_t kind(size_t i) const { return static_cast<uint32_t>(kind_[i]); }
  uint32_t layer(size_t i) const { return static_cast<uint32_t>(layer_[i]); }
  uint32_t memory(size_t i) const { return static_cast<uint32_t>(memory_[i]); }
  int device(size_t i) const { return static_cast<int>(static_cast<int64_t>(device_[i])); }
  uint64_t address(size_t i) const { return address_[i]; }
  uint64_t size(size_t i) const { return size_[i]; }
  uint64_t requested_size(size_t i) const { return requested_size_[i]; }
  uint64_t stream(size_t i) const { return stream_[i]; }
  uint64_t handle(size_t i) const { return handle_[i]; }
  uint32_t thread(size_t i) const { return static_cast<uint32_t>(thread_[i]); }
  uint64_t stack(size_t i) const { return stack_[i]; }
  uint32_t tag(size_t i) const { return static_cast<uint32_t>(tag_[i]); }
  int result(size_t i) const { return static_cast<int>(static_cast<int64_t>(result_[i])); }
  uint32_t duration_ns(size_t i) const { return static_cast<uint32_t>(duration_ns_[i]); }
  uint32_t api(size_t i) const { return static_cast<uint32_t>(api_[i]); }
  uint32_t text(size_t i) const { return static_cast<uint32_t>(text_[i]); }

  EventRow Row(size_t i) const;

 private:
  absl::Status DecodeColumns(absl::string_view message, uint64_t most);
  Column* ColumnOf(uint32_t field);
  uint32_t* ShiftOf(uint32_t field);
  absl::Status Finish();

  size_t count_ = 0;
  uint64_t first_time_ns_ = 0;
  uint32_t time_shift_ = 0;
  uint32_t address_shift_ = 0;
  uint32_t size_shift_ = 0;
  Column time_, kind_, layer_, memory_, device_, address_, size_, requested_size_, stream_, handle_, thread_, stack_,
      tag_, result_, duration_ns_, api_, text_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_TRACE_EVENT_BATCH_H_
