// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// EventBatch: events in columns, as trace.proto's message of that name stores them. Columns hold what repeats side by
// side, so LZ4 sees it.
//
// Thread-safety: one thread at a time. Ownership: owns its memory, which is only touched as far as it is used. Failure:
// Init returns false.
//
//   batch.Add(event, thread_id, stack_id, api_id);
//   batch.Encode(&writer);   // the fields of one EventBatch
//   batch.Clear();

#ifndef GPUMEM_SHIM_WRITER_EVENT_BATCH_H_
#define GPUMEM_SHIM_WRITER_EVENT_BATCH_H_

#include <cstdint>

#include "shim/base/buffer.h"
#include "shim/base/event.h"
#include "shim/base/proto_writer.h"

namespace gpumemshim::writer {

class EventBatch {
 public:
  static constexpr uint32_t kMaxEvents = 64 * 1024;

  bool Init();
  bool full() const { return count_ == kMaxEvents; }
  uint32_t count() const { return count_; }
  void Clear() {
    count_ = 0;
    has_rare_ = false;
  }

  // Not when full().
  void Add(const Event& event, uint32_t thread, uint32_t stack, uint32_t api, uint32_t text = 0);

  void Encode(ProtoWriter* w) const;

 private:
  struct Columns {
    uint64_t time_ns[kMaxEvents], address[kMaxEvents], size[kMaxEvents];
    uint32_t stack[kMaxEvents], thread[kMaxEvents], api[kMaxEvents];
    int16_t device[kMaxEvents];
    uint8_t kind[kMaxEvents], layer[kMaxEvents], memory[kMaxEvents];
    // PyTorch's reports have none of these. Written only from the first event on that has one of them; without such an
    // event they are all 0.
    uint64_t requested_size[kMaxEvents], stream[kMaxEvents], handle[kMaxEvents];
    uint32_t tag[kMaxEvents], duration_ns[kMaxEvents], text[kMaxEvents];
    int32_t result[kMaxEvents];
  };

  void ClearRare();

  Buffer memory_;
  Columns* columns_ = nullptr;
  uint32_t count_ = 0;
  bool has_rare_ = false;
};

}  // namespace gpumemshim::writer

#endif  // GPUMEM_SHIM_WRITER_EVENT_BATCH_H_
