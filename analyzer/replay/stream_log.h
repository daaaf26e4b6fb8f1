// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// StreamLog: on which streams PyTorch's blocks were asked for, and which captures of CUDA graphs share a private pool.
// PyTorch's allocator keeps a cache for each stream and each pool, so a program that takes a new stream for each call
// leaves what is free on the old one behind.
//
//   log.TakeUse(batch, i);             // an event of ALLOCATOR_USE
//   log.TakeBlock(batch, i, state);    // a block, behind LiveState::Apply
//   fragmentation.chains = log.Chains(slot);
//
// A chain is found in two ways. Where it is recorded which stream was taken where: streams of one place, of which only
// the last one taken was ever used. Where it is not: streams that each had one run of blocks, all from one place.
//
// Not thread-safe. Bounded memory: streams, places and captures that are new after the first thousands are left out.

#ifndef GPUMEM_ANALYZER_REPLAY_STREAM_LOG_H_
#define GPUMEM_ANALYZER_REPLAY_STREAM_LOG_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "replay/free_space.h"
#include "replay/state/live_state.h"
#include "trace/event_batch.h"

namespace gpumem {

class StreamLog {
 public:
  void TakeUse(const EventBatch& batch, size_t i);
  void TakeBlock(const EventBatch& batch, size_t i, const LiveState& state) {
    if (batch.handle(i) != 0) return Join(batch.handle(i), state, batch.address(i));
    const uint32_t slot = SlotOfDevice(batch.device(i));
    if (batch.stream(i) == last_stream_ && slot == last_slot_) return;
    Begin(slot, batch.stream(i), batch.stack(i));
  }

  std::vector<StreamChain> Chains(uint32_t slot) const;
  // With the parts of captures that share a pool added up.
  std::vector<CachePart> ByPool(const std::vector<CachePart>& parts) const;
  const AllocatorUses& uses() const { return uses_; }

 private:
  static constexpr size_t kMost = 4096;

  struct Stream {
    uint64_t taken_at = 0;  // stack; 0 = not known
    uint64_t first_stack = 0;
    uint64_t runs = 0;
    size_t order = 0;  // of the first use
  };
  struct Place {
    uint64_t takes = 0, last = 0;
    bool is_mixed = false;  // a stream was used after another one had been taken
    std::vector<uint64_t> streams;
  };
  struct Device {
    std::map<uint64_t, Stream> streams;
    std::map<uint64_t, Place> places;
  };

  void TakeStream(uint32_t slot, uint64_t stream, uint64_t stack);
  void Begin(uint32_t slot, uint64_t stream, uint64_t stack);
  void Join(uint64_t capture, const LiveState& state, uint64_t address);
  uint64_t PoolOf(uint64_t capture) const;

  std::map<uint32_t, Device> devices_;
  uint64_t last_stream_ = 0;
  uint32_t last_slot_ = 0;
  std::map<uint64_t, uint64_t> joined_;  // later capture -> earlier
  AllocatorUses uses_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_STREAM_LOG_H_
