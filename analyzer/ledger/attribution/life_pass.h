// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// LifePass: the second replay of a trace as lives: every piece of memory when it is over, with what it was for. What
// was alive when the program's own code ended was kept, whatever its teardown frees. Memory is bounded by what is
// alive. Not thread-safe; what it is given must outlive it.
//
//   class Count final : public LifePass {
//     void Lived(const Life& life, const AttributedUse& use) override { bytes_[Index(use.category)] += life.size; }
//   };

#ifndef GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_LIFE_PASS_H_
#define GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_LIFE_PASS_H_

#include <algorithm>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "ledger/attribution/block_use.h"
#include "ledger/attribution/label_replay.h"
#include "replay/analysis.h"

namespace gpumem {

enum class LifeKind : uint8_t {
  kBlock,    // of PyTorch's
  kOther,    // memory of CUDA outside of PyTorch's allocator
  kSegment,  // memory of CUDA that PyTorch reserved
};

// Alive after event `born` and before event `end`.
struct Life {
  LifeKind kind = LifeKind::kBlock;
  uint64_t born = 0;     // number of its event
  uint64_t time_ns = 0;  // of that event; 0 = not known
  uint64_t end = 0;      // the event that freed it; where nothing did, the one after the trace's last
  uint64_t end_ns = 0;   // of that event; 0 = nothing freed it
  uint64_t address = 0, size = 0;
  uint64_t requested = 0;  // of blocks
  uint64_t stream = 0;     // of blocks: CUstream of the allocation, 0 = the default one
  uint32_t slot = 0, thread = 0, api = 0;
  bool kept = false;   // alive at the end of the program's own code
  bool saved = false;  // kept by autograd for the backward pass
};

class LifePass : public LabelVisitor {
 public:
  struct Needs {
    BlockUses::Needs uses;
    const Analysis* analysis = nullptr;
    uint64_t until_ns = 0;  // what is alive then was kept; 0 = the end of the program's own code
  };
  explicit LifePass(const Needs& needs);

  void BlockAllocated(const TorchBlock& block) override;
  void BlockEnded(const TorchBlock& block, const BlockLabel& label, uint64_t end, bool alive) final;
  void CudaEnded(const CudaLife& cuda, uint64_t end) override;
  void SegmentEnded(const CudaLife& cuda, uint64_t end) override;
  void Before(uint64_t index, const EventBatch* batch, size_t i) override;

  uint64_t events() const { return end_of_events_; }  // after the replay
  // The last event of the program's own code.
  uint64_t end_event() const {
    const uint64_t after = std::min(frozen_at_, end_of_events_);
    return after == 0 ? 0 : after - 1;
  }

 protected:
  // Of a segment: its use has a stack, a layer and bytes, and no category.
  virtual void Lived(const Life& life, const AttributedUse& use) = 0;
  // What is not wanted is not told.
  virtual bool IsWanted(const Life&) const { return true; }

  const LiveState& state() const { return replay_->state(); }
  // The first event after `until_ns`, once it comes; UINT64_MAX before.
  uint64_t frozen_at() const { return frozen_at_; }

 private:
  template <typename Ended>  // TorchBlock or CudaLife
  Life LifeOf(LifeKind kind, const Ended& ended, uint64_t born, uint64_t end) const;
  uint64_t TakeStream(uint64_t event);
  // Nothing freed it. Told anew after a gap is what was alive before it: its life ends there, though nothing freed it.
  bool IsAliveAtEnd(uint64_t end) const { return is_over_ && end >= end_of_events_; }

  const LabelReplay* replay_;
  BlockUses uses_;
  uint64_t until_ns_;
  uint64_t frozen_at_ = UINT64_MAX;
  bool is_over_ = false;
  uint64_t end_of_events_ = 0;
  // Of the event that is taking effect.
  uint64_t index_ = 0, now_ns_ = 0, stream_ = 0;
  absl::flat_hash_map<uint64_t, uint64_t> stream_of_event_;  // of blocks that are alive, where it is not 0
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_LIFE_PASS_H_
