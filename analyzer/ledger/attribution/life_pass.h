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

#include "ledger/attribution/block_use.h"
#include "ledger/attribution/label_replay.h"
#include "replay/analysis.h"

namespace gpumem {

// A block of PyTorch's, or memory of CUDA outside of them. Alive behind event `born` and before event `end`.
struct Life {
  uint64_t born = 0;     // number of its event
  uint64_t time_ns = 0;  // of that event; 0 = not known
  uint64_t end = 0;      // the event that freed it; where nothing did, the one behind the trace's last
  uint64_t address = 0, size = 0;
  uint64_t requested = 0;  // of blocks
  uint32_t slot = 0, thread = 0, api = 0;
  bool kept = false;   // alive at the end of the program's own code
  bool saved = false;  // kept by autograd for the backward pass
};

class LifePass : public LabelVisitor {
 public:
  struct Needs {
    BlockUses::Needs uses;
    const Analysis* analysis = nullptr;
  };
  explicit LifePass(const Needs& needs);

  void BlockAllocated(const TorchBlock& block) override { uses_.Allocated(block); }
  void BlockEnded(const TorchBlock& block, const BlockLabel& label, uint64_t end, bool alive) final;
  void CudaEnded(const CudaLife& cuda, uint64_t end) override;
  void Before(uint64_t index, const EventBatch* batch, size_t i) override;

  // The last event of the program's own code.
  uint64_t end_event() const {
    const uint64_t behind = std::min(frozen_at_, end_of_events_);
    return behind == 0 ? 0 : behind - 1;
  }

 protected:
  virtual void Lived(const Life& life, const AttributedUse& use) = 0;

  const LiveState& state() const { return replay_->state(); }
  // Nothing freed it. Told anew behind a gap is what was alive before it: its life ends there, though nothing freed it.
  bool IsAliveAtEnd(uint64_t end) const { return is_over_ && end >= end_of_events_; }
  uint64_t now_ns() const { return now_ns_; }  // of the event that is taking effect

 private:
  const LabelReplay* replay_;
  BlockUses uses_;
  uint64_t program_end_ns_;
  uint64_t frozen_at_ = UINT64_MAX;  // the first event behind the end of the program's own code
  bool is_over_ = false;
  uint64_t end_of_events_ = 0;
  uint64_t now_ns_ = 0;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_LIFE_PASS_H_
