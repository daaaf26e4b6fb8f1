// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/attribution/label_replay.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"

namespace gpumem {

uint64_t BytesOfType(absl::string_view dtype) {
  if (dtype == "float64" || dtype == "int64" || dtype == "complex64" || dtype == "uint64") return 8;
  if (dtype == "complex128") return 16;
  if (absl::StrContains(dtype, "float16") || dtype == "int16" || dtype == "uint16" || dtype == "half") return 2;
  if (absl::StrContains(dtype, "float8") || absl::StrContains(dtype, "int8") || dtype == "bool") return 1;
  return absl::StrContains(dtype, "32") ? 4 : 0;
}

namespace {

// Memory of the host that CUDA pinned, or that moves between both.
bool IsHost(const CudaAllocation& allocation) {
  return allocation.counted && !allocation.on_device &&
         (allocation.memory == trace::HOST_PINNED || allocation.memory == trace::MANAGED);
}
bool IsHost(const PhysicalHandle&) { return false; }

// Of LabelReplay::cuda_labels_, which has none of blocks.
size_t LabelsOf(Held kind) { return kind == Held::kDriver ? 2 : kind == Held::kPhysical ? 1 : 0; }

CudaLife LifeOf(const DriverPiece& piece, const BlockLabel& label) {
  CudaLife life;
  life.alloc_event = label.alloc_event;
  life.address = piece.handle;
  life.size = piece.size;
  life.stack = piece.stack;
  life.time_ns = piece.time_ns;
  life.slot = piece.slot;
  life.thread = piece.thread;
  life.api = piece.api;
  life.layer = piece.layer;
  return life;
}

}  // namespace

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
  std::vector<BlockLabel>& labels = cuda_labels_[LabelsOf(kind)];
  if (place >= labels.size()) labels.resize(std::max<size_t>(place + 1, labels.size() * 2));
  BlockLabel& label = labels[place] = {};
  label.alloc_event = Born();
  label.optimizer_steps = optimizer_steps_;
  label.optimizer_ends = optimizer_ends_;
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
  const std::vector<BlockLabel>& labels = cuda_labels_[LabelsOf(kind)];
  const BlockLabel label = place < labels.size() ? labels[place] : BlockLabel{};
  if (kind == Held::kDriver)
    return visitor->DriverEnded(LifeOf(state().driver_pieces()[place], label), replay_.index());
  CudaLife life;
  life.label = label;
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
  ForEachPlace([&](Held kind, uint32_t place) { OnAlloc(kind, place); });
  is_beginning_ = false;
}

void LabelReplay::EndAll() {
  ForEachPlace([&](Held kind, uint32_t place) { End(kind, place, true); });
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

// Of the block at an address, or of the allocation around it where PyTorch has no block there; null where nothing is.
BlockLabel* LabelReplay::LabelAt(uint64_t address) {
  if (const uint32_t place = BlockAt(address); place != kNowhere) return &labels_[place];
  auto after = allocation_at_.upper_bound(address);
  if (after == allocation_at_.begin()) return nullptr;
  --after;
  const bool is_inside = address - after->first < state().cuda().allocations()[after->second].size;
  return is_inside ? &cuda_labels_[0][after->second] : nullptr;
}

void LabelReplay::Name(uint64_t address, uint32_t name) {
  if (BlockLabel* const label = LabelAt(address); label != nullptr) {
    label->name = name;
  } else {
    ++unplaced_;
  }
}

// The tensor lies elsewhere from now on, if it is known and no other one was the same object at another time.
void LabelReplay::MoveTensor(uint64_t implementation, uint64_t address) {
  if (known_tensors_ != objects_->tensors().size()) {
    known_tensors_ = objects_->tensors().size();
    tensor_of_ = {{0, 0}};
    for (const auto& [id, tensor] : objects_->tensors()) {
      const auto [known, is_new] = tensor_of_.try_emplace(tensor.implementation, id);
      if (!is_new) known->second = 0;
    }
  }
  const auto found = tensor_of_.find(implementation);
  if (found == tensor_of_.end() || found->second == 0) return;
  const TensorInfo* const info = objects_->tensor(found->second);
  const uint64_t bytes = info->elements * BytesOfType(info->dtype);
  const uint32_t place = BlockAt(address);
  // Too small for it: another tensor is that object now.
  if (place != kNowhere && state().blocks()[place].size < bytes) return;
  PlaceTensor(found->second, address, bytes);
}

void LabelReplay::PlaceTensor(uint32_t tensor, uint64_t address, uint64_t bytes) {
  visitor_->TensorPlaced(tensor, address == 0 ? 0 : bytes);
  if (address == 0) {
    tensor_alloc_.erase(tensor);
    return;
  }
  const TensorInfo* const info = objects_->tensor(tensor);
  BlockLabel* const found = info == nullptr ? nullptr : LabelAt(address);
  if (found == nullptr) {
    ++unplaced_;
    return;
  }
  BlockLabel& label = *found;
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
    case trace::TENSOR_DATA:
      MoveTensor(batch.handle(i), batch.address(i));
      break;
    case trace::SAVED:
      if (const uint32_t place = BlockAt(batch.address(i)); place == kNowhere) {
        BlockLabel* const label = LabelAt(batch.address(i));
        if (label == nullptr) ++unplaced_;
        if (label != nullptr) label->saved = true;
      } else {
        const TorchBlock& block = state().blocks()[place];
        if (!std::exchange(labels_[place].saved, true)) visitor_->BlockSaved(block);
        visitor_->SavedBy(block, batch.handle(i), batch.thread(i));
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
  ForEachPlace([&](Held kind, uint32_t place) { Show(kind, place, true, visitor); });
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
