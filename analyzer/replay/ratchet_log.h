// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// RatchetLog: which stacks ask for ever larger blocks, so that none of the segments that their earlier ones leave free
// has room for the next. A block from 10 MiB on has a segment of its size (free_space.h).
//
//   log.TakeCuda(batch, i);    // memory of CUDA: a segment, perhaps
//   log.TakeBlock(batch, i);   // a block behind it, which lies in it
//   fragmentation.ratchets = log.Ratchets(slot);
//
// Not thread-safe. Bounded memory: stacks that are new after the first thousands are left out.

#ifndef GPUMEM_ANALYZER_REPLAY_RATCHET_LOG_H_
#define GPUMEM_ANALYZER_REPLAY_RATCHET_LOG_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "replay/free_space.h"
#include "trace/event_batch.h"

namespace gpumem {

class RatchetLog {
 public:
  void TakeCuda(const EventBatch& batch, size_t i) {
    address_ = batch.address(i);
    size_ = batch.size(i);
  }
  void TakeBlock(const EventBatch& batch, size_t i) {
    if (size_ != 0) AddFirst(batch, i);
  }

  std::vector<SizeRatchet> Ratchets(uint32_t slot) const;

 private:
  static constexpr size_t kMost = 4096;

  struct OfStack {
    SizeRatchet rises;
    uint64_t segments = 0;
  };
  void AddFirst(const EventBatch& batch, size_t i);

  uint64_t address_ = 0, size_ = 0;                          // the newest memory of CUDA, until a block comes
  std::map<std::pair<uint32_t, uint64_t>, OfStack> stacks_;  // by slot and stack
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_RATCHET_LOG_H_
