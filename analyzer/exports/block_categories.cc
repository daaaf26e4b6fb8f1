// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "exports/block_categories.h"

#include "report/input.h"
#include "state/accounts.h"

namespace gpumem {
namespace {

AttributionRequest RequestOf(const Analysis& analysis) {
  AttributionRequest request;
  if (const DeviceAnalysis* const device = LargestDevice(analysis)) request.device = device->device;
  return request;
}

}  // namespace

BlockCategories::BlockCategories(LoadedTrace* loaded)
    : loaded_(loaded),
      request_(RequestOf(loaded->analysis)),
      classifier_(&loaded->stacks, &rules_, ResolverOf(loaded)),
      modules_(&loaded->stacks.objects(), &rules_),
      user_stages_(&loaded->analysis.marks, &loaded->stacks) {}

LabelVisitor* BlockCategories::BeginFirst(const LabelReplay& replay) {
  index_pass_.emplace(request_, SlotOfDevice(request_.device), &replay, &loaded_->stacks, &classifier_, &user_stages_);
  if (loaded_->analysis.events.by_kind.count("OPTIMIZER_STEP") == 0) index_pass_->CountIterations();
  return &*index_pass_;
}

LabelVisitor* BlockCategories::BeginSecond(const LabelReplay& replay) {
  uses_.emplace(BlockUses::Needs{&replay, &index_pass_->places(), index_pass_->has_tensors(), &classifier_, &modules_,
                                 &user_stages_, index_pass_->LastLoop(), index_pass_->FirstStackOfCalls()});
  return this;
}

void BlockCategories::BlockEnded(const TorchBlock& block, const BlockLabel& label, uint64_t end, bool alive) {
  if (label.alloc_event >= by_event_.size()) by_event_.resize(label.alloc_event + 1, Category::kUnknown);
  by_event_[label.alloc_event] = uses_->Of(block, label, end, alive).category;
}

}  // namespace gpumem
