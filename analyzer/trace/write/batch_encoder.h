// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// BatchEncoder: events as the columns of trace.proto's EventBatch; the reverse of EventBatch::Decode. Columns hold what
// repeats side by side, so that a compressor sees it. Not thread-safe; owns its rows. Nothing fails.
//
//   BatchEncoder encoder;
//   encoder.Add(row);
//   packet = encoder.Serialize();
//   encoder.Clear();

#ifndef GPUMEM_ANALYZER_TRACE_WRITE_BATCH_ENCODER_H_
#define GPUMEM_ANALYZER_TRACE_WRITE_BATCH_ENCODER_H_

#include <cstddef>
#include <string>
#include <vector>

#include "trace/event_batch.h"

namespace gpumem {

class BatchEncoder {
 public:
  // So many events a batch are what writers keep to.
  static constexpr size_t kMaxEvents = size_t{64} * 1024;

  void Add(const EventRow& row) { rows_.push_back(row); }
  bool is_full() const { return rows_.size() >= kMaxEvents; }
  size_t count() const { return rows_.size(); }
  const std::vector<EventRow>& rows() const { return rows_; }
  void Clear() { rows_.clear(); }

  // A serialized EventBatch. Times, addresses and sizes are kept exactly.
  std::string Serialize() const;

 private:
  std::vector<EventRow> rows_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_TRACE_WRITE_BATCH_ENCODER_H_
