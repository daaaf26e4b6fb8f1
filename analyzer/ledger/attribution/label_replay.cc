// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/attribution/label_replay.h"

#include <algorithm>
#include <utility>

namespace gpumem {
namespace {

// Memory of the host that CUDA pinned, or that moves between both.
bool IsHost(const CudaAllocation& allocation) {
  return allocation.counted && !allocation.on_device &&
         (allocation.memory == trace::HOST_PINNED || allocation.memory == trace::MANAGED);
}
bool IsHost(const PhysicalHandle&) { return false; }

// A block has the strongest role that was ever said of it.
int Strength(TensorRole role) {
  switch (role) {
    case TensorRole::kParameter:
      return 5;
    case TensorRole::kBuffer:
      return 4;
    case TensorRole::kOptimizerState:
      return 3;
    case TensorRole::kGradient:
      return 2;
    case TensorRole::kInput:
      return 1;
    case TensorRole::kNone:
      break;
  }
  return 0;
}

}  // namespace

void LabelReplay::OnAlloc(Held kind, uint32_t place) {
  if (kind == Held::kBlock) {
    if (place >= labels_.size()) labels_.resize(std::max<size_t>(place + 1, labels_.size() * 2));
    const TorchBlock& block = state().blocks()[place];
    Turns& turns = turns_[{block.stack, block.size}];
    if (turns.optimizer_steps != optimizer_steps_) turns = {optimizer_steps_, 0};
    BlockLabel& label = labels_[place] = {};
    label.alloc_event = Born();
    label.optimizer_steps = optimizer_steps_;
    label.optimizer_ends = optimizer_ends_;
    label.turn = turns.count++;
    if (is_ordered_) block_at_[block.address] = place;
    visitor_->BlockAllocated(block);
    return;
  }
  std::vector<CudaLabel>& labels = cuda_labels_[kind == Held::kPhysical ? 1 : 0];
  if (place >= labels.size()) labels.resize(std::max<size_t>(place + 1, labels.size() * 2));
  labels[place] = {Born(), 0};
  if (kind == Held::kAllocation) allocation_at_[state().cuda().allocations()[place].address] = place;
}

void LabelReplay::OnFree(Held kind, uint32_t place) { End(kind, place, false); }

void LabelReplay::End(Held kind, uint32_t place, bool alive) {
  Show(kind, place, alive, visitor_);
  if (kind == Held::kBlock) {
    if (is_ordered_) block_at_.erase(state().blocks()[place].address);
  } else if (kind == Held::kAllocation) {
    const auto at = allocation_at_.find(state().cuda().allocations()[place].address);
    if (at != allocation_at_.end() && at->second == place) allocation_at_.erase(at);
  }
}

void LabelReplay::Show(Held kind, uint32_t place, bool alive, LabelVisitor* visitor) const {
  if (kind == Held::kBlock) return visitor->BlockEnded(state().blocks()[place], labels_[place], replay_.index(), alive);
  const CudaMemory& cuda = state().cuda();
  const std::vector<CudaLabel>& labels = cuda_labels_[kind == Held::kPhysical ? 1 : 0];
  const CudaLabel label = place < labels.size() ? labels[place] : CudaLabel{};
  CudaLife life;
  life.alloc_event = label.alloc_event;
  life.name = label.name;
  const auto show = [&](const auto& thing, uint64_t address) {
    const bool is_segment = thing.torch && thing.counted;
    const bool is_host = IsHost(thing);
    if (!is_segment && !is_host && !cuda.InOther(thing)) return;
    life.address = address;
    life.api = thing.api;
    life.size = thing.size;
    life.stack = thing.stack;
    life.time_ns = thing.time_ns;
    life.thread = thing.thread;
    life.slot = thing.slot;
    life.layer = thing.layer;
    life.memory = thing.memory;
    if (is_host) {
      life.slot = 0;
      return visitor->HostEnded(life, replay_.index());
    }
    if (is_segment) return visitor->SegmentEnded(life, replay_.index());
    visitor->CudaEnded(life, replay_.index());
  };
  if (kind == Held::kPhysical) return show(cuda.physicals()[place], cuda.physicals()[place].handle);
  show(cuda.allocations()[place], cuda.allocations()[place].address);
}

void LabelReplay::BeginAll() {
  is_beginning_ = true;
  state().ForEachPlace([&](Held kind, uint32_t place) { OnAlloc(kind, place); });
  is_beginning_ = false;
}

void LabelReplay::EndAll() {
  state().ForEachPlace([&](Held kind, uint32_t place) { End(kind, place, true); });
}

// A file of the series is missing: what is alive behind the gap is stated anew.
void LabelReplay::BeforeSnapshot() {
  EndAll();
  block_at_.clear();
  allocation_at_.clear();
  tensor_alloc_.clear();
}

// Most tensors begin where their block does. An order by address is kept from the first one on that does not.
uint32_t LabelReplay::BlockAt(uint64_t address) {
  if (const uint32_t place = state().FindBlock(address); place != AddressIndex::kNone) return place;
  if (!std::exchange(is_ordered_, true)) {
    state().blocks().ForEachPlace([&](uint32_t place, const TorchBlock& block) { block_at_[block.address] = place; });
  }
  auto after = block_at_.upper_bound(address);
  if (after == block_at_.begin()) return kNowhere;
  --after;
  const TorchBlock& block = state().blocks()[after->second];
  return address - block.address < block.size ? after->second : kNowhere;
}

// Of the block at an address, or of the allocation around it where PyTorch has no block there.
void LabelReplay::Name(uint64_t address, uint32_t name) {
  if (const uint32_t place = BlockAt(address); place != kNowhere) {
    labels_[place].name = name;
    return;
  }
  auto after = allocation_at_.upper_bound(address);
  if (after == allocation_at_.begin()) {
    ++unplaced_;
    return;
  }
  --after;
  const bool is_inside = address - after->first < state().cuda().allocations()[after->second].size;
  if (is_inside) {
    cuda_labels_[0][after->second].name = name;
  } else {
    ++unplaced_;
  }
}

void LabelReplay::PlaceTensor(uint32_t tensor, uint64_t address, uint64_t bytes) {
  visitor_->TensorPlaced(tensor, address == 0 ? 0 : bytes);
  if (address == 0) {
    tensor_alloc_.erase(tensor);
    return;
  }
  const TensorInfo* const info = objects_->tensor(tensor);
  const uint32_t place = BlockAt(address);
  if (place == kNowhere || info == nullptr) {
    ++unplaced_;
    return;
  }
  BlockLabel& label = labels_[place];
  if (Strength(info->role) < Strength(label.role)) return;
  if (info->role != label.role) {
    label.role = info->role;
    label.tensor = tensor;
    label.tensor_bytes = 0;
  } else if (const auto counted = tensor_alloc_.find(tensor);
             counted != tensor_alloc_.end() && counted->second == label.alloc_event) {
    return;  // said again
  }
  label.tensor_bytes += bytes;
  tensor_alloc_[tensor] = label.alloc_event;
}

void LabelReplay::ApplyLabel(const EventBatch& batch, size_t i) {
  switch (batch.kind(i)) {
    case trace::TENSOR:
      if (batch.handle(i) == 0) return Name(batch.address(i), batch.text(i));
      PlaceTensor(static_cast<uint32_t>(batch.handle(i)), batch.address(i), batch.size(i));
      break;
    case trace::SAVED:
      if (const uint32_t place = BlockAt(batch.address(i)); place == kNowhere) {
        ++unplaced_;
      } else if (!std::exchange(labels_[place].saved, true)) {
        visitor_->BlockSaved(state().blocks()[place]);
      }
      break;
    case trace::OPTIMIZER_STEP:
      ++(batch.size(i) == 0 ? optimizer_steps_ : optimizer_ends_);
      break;
    default:
      break;
  }
}

bool LabelReplay::Take(const EventBatch& batch, size_t i, const EventBatch* following) {
  if (batch.time_ns(i) > end_ns_) return false;
  visitor_->Before(replay_.index(), &batch, i);
  if (IsLabel(batch.kind(i))) {
    ApplyLabel(batch, i);
  } else {
    visitor_->Applied(replay_.index(), replay_.state().Apply(batch, i, following), batch, i);
  }
  return true;
}

bool LabelReplay::Follow(LabelVisitor* visitor, bool plays_newest, size_t most_batches) {
  if (std::exchange(visitor_, visitor) == nullptr) replay_.Observe(this);
  return replay_.Follow(this, plays_newest, most_batches);
}

void LabelReplay::ShowLive(LabelVisitor* visitor) const {
  state().ForEachPlace([&](Held kind, uint32_t place) { Show(kind, place, true, visitor); });
}

void LabelReplay::Run(LabelVisitor* visitor) {
  visitor_ = visitor;
  replay_.Observe(this);
  replay_.Run(this);
  replay_.Close();
  visitor_->Before(replay_.index(), nullptr, 0);
  EndAll();
}

}  // namespace gpumem
