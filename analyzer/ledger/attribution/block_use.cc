// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/attribution/block_use.h"

#include <algorithm>

namespace gpumem {
namespace {

// How many of the events, which ascend, lie inside of a life.
uint32_t CountIn(const std::vector<uint64_t>& events, uint64_t alloc_event, uint64_t end) {
  const auto first = std::upper_bound(events.begin(), events.end(), alloc_event);
  return static_cast<uint32_t>(std::lower_bound(first, events.end(), end) - first);
}

}  // namespace

void BlockUses::Before(uint64_t index, const EventBatch* batch, size_t i) {
  if (batch == nullptr || is_frozen_) return;
  const bool is_call = batch->kind(i) == trace::ALLOC && batch->layer(i) == trace::TORCH && batch->stack(i) != 0 &&
                       batch->stack(i) == needs_.first_stack_of_calls;
  if (is_call) calls_.push_back(index);
  if (clock_ && clock_->Ticks(index, *batch, i)) anchors_.push_back(index);
}

void BlockUses::Allocated(const TorchBlock& block) {
  if (needs_.first_stack_of_calls == 0 || block.stack == 0) return;
  Sizes& sizes = sizes_[block.stack];
  if (sizes.last != 0 && block.size > sizes.last) ++sizes.growths;
  sizes.last = block.size;
}

BlockUses::Needs BlockUses::NeedsAfter(const IndexPass& first, const LabelReplay& second, StackClassifier* classifier,
                                       ModuleTable* modules, UserStages* user_stages) {
  Needs needs;
  needs.replay = &second;
  needs.places = &first.places();
  needs.has_tensors = first.has_tensors();
  needs.classifier = classifier;
  needs.modules = modules;
  needs.user_stages = user_stages;
  needs.loop = first.LastLoop();
  needs.first_stack_of_calls = first.FirstStackOfCalls();
  needs.held = &first.held();
  needs.has_saved = first.has_saved();
  return needs;
}

void BlockUses::Freeze() {
  if (is_frozen_) return;
  frozen_steps_ = Steps();
  frozen_ends_ = Ends();
  is_frozen_ = true;
}

// A cache that each call of the model replaces by a longer one; the last one is there at the end.
bool BlockUses::GrowsFromCallToCall(const TorchBlock& block, const BlockLife& life, uint64_t alloc_event,
                                    uint64_t end) const {
  const auto sizes = sizes_.find(block.stack);
  return sizes != sizes_.end() && sizes->second.growths > 0 && (life.alive || CountIn(calls_, alloc_event, end) > 0);
}

// What is kept to the end is kept as others from its line are, however late it came.
void BlockUses::TakeOthers(const TorchBlock& block, const StackClassification& classification, uint64_t end,
                           BlockLife* life) const {
  if (!life->alive || needs_.held == nullptr) return;
  const auto found = needs_.held->find(block.stack);
  if (found == needs_.held->end()) return;
  const HeldBlocks& others = found->second;
  life->oldest_steps = std::max(Steps(), others.oldest_steps) - others.oldest_steps;
  life->oldest_iterations = CountIn(anchors_, others.oldest_event, end);
  life->are_of_several_steps = others.newest_steps >= others.oldest_steps + 2;
  const bool trains = needs_.has_saved || Steps() != 0;
  life->are_many = others.count >= kLeastIterations && (!trains || classification.stage == Stage::kEvaluation);
}

AttributedUse BlockUses::Of(const TorchBlock& block, const BlockLabel& label, uint64_t end, bool alive) const {
  const StackClassification classification = needs_.classifier->Of(block.stack);
  BlockLife life;
  life.role = label.role;
  life.saved = label.saved;
  life.alive = alive;
  life.optimizer_steps = std::max(Steps(), label.optimizer_steps) - label.optimizer_steps;
  life.optimizer_ends = std::max(Ends(), label.optimizer_ends) - label.optimizer_ends;
  life.iterations = CountIn(anchors_, label.alloc_event, end);
  life.has_tensors = needs_.has_tensors;
  TakeOthers(block, classification, end, &life);
  AttributedUse use;
  use.tensor_bytes = label.tensor_bytes;
  uint32_t tensor = label.tensor;
  if (label.role == TensorRole::kNone) {
    auto place = needs_.places->find({block.stack, block.size, label.turn});
    if (place == needs_.places->end()) place = needs_.places->find({block.stack, block.size, kAnyTurn});
    if (place != needs_.places->end()) {
      life.likely = place->second.role;
      tensor = place->second.tensor;
      life.likely_per_sample = needs_.modules->PartOf(tensor, Category::kGradient) == Part::kPerSample;
      use.tensor_bytes = place->second.tensor_bytes;
    }
  }
  const CategoryVerdict verdict = Classify(life, classification);
  const bool by_tensor = verdict.evidence == Evidence::kAddress || verdict.evidence == Evidence::kStack;
  if (!by_tensor) use.tensor_bytes = block.requested;
  use.stack_id = block.stack;
  use.name = label.name;
  use.user_stage = needs_.user_stages->Of(block.time_ns, block.thread);
  use.layer = trace::TORCH;
  use.memory = trace::DEVICE;
  use.category = verdict.category;
  use.evidence = verdict.evidence;
  if (by_tensor) use.part = needs_.modules->PartOf(tensor, verdict.category);
  const uint32_t owner = by_tensor && verdict.category != Category::kInput ? needs_.modules->OwnerOf(tensor) : 0;
  // What a library keeps serves all modules, not the one whose call was the first to need it.
  const bool is_shared = verdict.category == Category::kWorkspace && (alive || life.optimizer_steps > 1);
  use.module = owner != 0 ? owner : is_shared ? 0 : needs_.modules->RowOf(classification.module);
  // What attention keeps from call to call, in a program that does not train, are keys and values.
  const bool is_any = use.category == Category::kTemporary || use.category == Category::kUnknown;
  const bool is_kept =
      use.category == Category::kKept || (is_any && GrowsFromCallToCall(block, life, label.alloc_event, end));
  // One module has one of a line; many are a list of the program's, attention maps for instance.
  if (is_kept && Steps() == 0 && !life.are_many && needs_.modules->row(use.module).component == "attention") {
    use.category = Category::kKvCache;
    use.evidence = Evidence::kRule;
  }
  use.bytes = block.size;
  use.count = 1;
  return use;
}

// PyTorch's own memory past its caching allocator: cudaMallocAsync, a pluggable allocator. What tensors and autograd
// say of it is known as for blocks, the rest is not.
bool BlockUses::OfTensors(const CudaLife& life, bool alive, AttributedUse* use) const {
  if (life.label.role == TensorRole::kNone && !life.label.saved) return false;
  TorchBlock block;
  block.size = block.requested = life.size;
  block.stack = life.stack;
  block.time_ns = life.time_ns;
  block.thread = life.thread;
  const uint8_t layer = life.layer, memory = life.memory;
  *use = Of(block, life.label, life.alloc_event, alive);
  use->layer = layer;
  use->memory = memory;
  return true;
}

AttributedUse BlockUses::Of(const CudaLife& life, bool alive) const {
  AttributedUse of_tensors;
  if (OfTensors(life, alive, &of_tensors)) return of_tensors;
  const StackClassification classification = needs_.classifier->Of(life.stack);
  AttributedUse use;
  use.stack_id = life.stack;
  use.name = life.name;
  use.user_stage = needs_.user_stages->Of(life.time_ns, life.thread);
  use.layer = life.layer;
  use.memory = life.memory;
  // A tensor of which nothing is known, and no library's.
  const Category otherwise = classification.by_allocator ? Category::kUnknown : Category::kLibrary;
  use.category = classification.stated ? *classification.stated : classification.category.value_or(otherwise);
  use.evidence = use.category == Category::kUnknown ? Evidence::kNone
                 : classification.stated            ? Evidence::kStated
                 : classification.category          ? Evidence::kRule
                                                    : Evidence::kMeasured;
  use.module = needs_.modules->RowOf(classification.module);
  use.bytes = use.tensor_bytes = life.size;
  use.count = 1;
  return use;
}

}  // namespace gpumem
