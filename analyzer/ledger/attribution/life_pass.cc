// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/attribution/life_pass.h"

#include "ledger/attribution/two_passes.h"

namespace gpumem {
namespace {

template <typename Ended>  // TorchBlock or CudaLife
Life LifeOf(const Ended& ended, uint64_t born, uint64_t end) {
  Life life;
  life.born = born;
  life.time_ns = ended.time_ns;
  life.end = end;
  life.address = ended.address;
  life.size = ended.size;
  life.slot = ended.slot;
  life.thread = ended.thread;
  life.api = ended.api;
  return life;
}

}  // namespace

LifePass::LifePass(const Needs& needs)
    : replay_(needs.uses.replay), uses_(needs.uses), program_end_ns_(EndOfProgram(*needs.analysis)) {}

void LifePass::Before(uint64_t index, const EventBatch* batch, size_t i) {
  if (batch == nullptr) {
    is_over_ = true;
    end_of_events_ = index;
    return;
  }
  now_ns_ = batch->time_ns(i);
  if (now_ns_ > program_end_ns_ && frozen_at_ == UINT64_MAX) {
    frozen_at_ = index;
    uses_.Freeze();
  }
  uses_.Before(index, batch, i);
}

void LifePass::BlockEnded(const TorchBlock& block, const BlockLabel& label, uint64_t end, bool alive) {
  Life life = LifeOf(block, label.alloc_event, end);
  // As other answers see it: whatever was alive when the program's own code ended was kept.
  life.kept = IsAliveAtEnd(end) || (frozen_at_ != UINT64_MAX && end >= frozen_at_);
  if (label.alloc_event >= frozen_at_) life.kept = false;
  const AttributedUse use = uses_.Of(block, label, life.kept ? std::min(end, frozen_at_) : end, alive || life.kept);
  life.requested = block.requested;
  life.saved = label.saved;
  Lived(life, use);
}

void LifePass::CudaEnded(const CudaLife& cuda, uint64_t end) {
  Life life = LifeOf(cuda, cuda.alloc_event, end);
  life.kept = (IsAliveAtEnd(end) || end >= frozen_at_) && cuda.alloc_event < frozen_at_;
  Lived(life, uses_.Of(cuda));
}

}  // namespace gpumem
