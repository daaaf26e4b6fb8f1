// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/attribution/life_pass.h"

#include "ledger/attribution/two_passes.h"
#include "trace/event_batch.h"

namespace gpumem {

LifePass::LifePass(const Needs& needs)
    : replay_(needs.uses.replay),
      uses_(needs.uses),
      until_ns_(needs.until_ns == 0 ? EndOfProgram(*needs.analysis) : needs.until_ns) {}

void LifePass::Before(uint64_t index, const EventBatch* batch, size_t i) {
  index_ = index;
  if (batch == nullptr) {
    is_over_ = true;
    end_of_events_ = index;
    return;
  }
  now_ns_ = batch->time_ns(i);
  stream_ = IsMark(batch->kind(i)) ? 0 : batch->stream(i);
  if (now_ns_ > until_ns_ && frozen_at_ == UINT64_MAX) {
    frozen_at_ = index;
    uses_.Freeze();
  }
  uses_.Before(index, batch, i);
}

void LifePass::BlockAllocated(const TorchBlock& block) {
  uses_.Allocated(block);
  if (stream_ != 0) stream_of_event_[index_] = stream_;
}

uint64_t LifePass::TakeStream(uint64_t event) {
  const auto found = stream_of_event_.find(event);
  if (found == stream_of_event_.end()) return 0;
  const uint64_t stream = found->second;
  stream_of_event_.erase(found);
  return stream;
}

template <typename Ended>
Life LifePass::LifeOf(LifeKind kind, const Ended& ended, uint64_t born, uint64_t end) const {
  Life life;
  life.kind = kind;
  life.born = born;
  life.time_ns = ended.time_ns;
  life.end = end;
  life.end_ns = IsAliveAtEnd(end) ? 0 : now_ns_;
  life.address = ended.address;
  life.size = ended.size;
  life.slot = ended.slot;
  life.thread = ended.thread;
  life.api = ended.api;
  // As other answers see it: whatever was alive when the program's own code ended was kept.
  life.kept = born < frozen_at_ && (IsAliveAtEnd(end) || end >= frozen_at_);
  return life;
}

void LifePass::BlockEnded(const TorchBlock& block, const BlockLabel& label, uint64_t end, bool alive) {
  Life life = LifeOf(LifeKind::kBlock, block, label.alloc_event, end);
  life.stream = TakeStream(life.born);
  life.requested = block.requested;
  life.saved = label.saved;
  if (!IsWanted(life)) return;
  Lived(life, uses_.Of(block, label, life.kept ? std::min(end, frozen_at_) : end, alive || life.kept));
}

void LifePass::CudaEnded(const CudaLife& cuda, uint64_t end) {
  const Life life = LifeOf(LifeKind::kOther, cuda, cuda.alloc_event, end);
  if (IsWanted(life)) Lived(life, uses_.Of(cuda, life.kept || IsAliveAtEnd(end)));
}

void LifePass::SegmentEnded(const CudaLife& cuda, uint64_t end) {
  const Life life = LifeOf(LifeKind::kSegment, cuda, cuda.alloc_event, end);
  if (!IsWanted(life)) return;
  AttributedUse use;
  use.stack_id = cuda.stack;
  use.layer = cuda.layer;
  use.memory = cuda.memory;
  use.bytes = cuda.size;
  use.count = 1;
  Lived(life, use);
}

}  // namespace gpumem
