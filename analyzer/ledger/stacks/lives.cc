// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/stacks/lives.h"

#include "ledger/load/input.h"
#include "replay/state/accounts.h"

namespace gpumem {
namespace {

AttributionRequest RequestOf(const Analysis& analysis) {
  AttributionRequest request;
  request.steps = true;
  if (const DeviceAnalysis* const device = LargestDevice(analysis)) {
    request.device = device->device;
    request.measure = DefaultMeasure(*device);
  }
  return request;
}

}  // namespace

LivesAnalysis::LivesAnalysis(LoadedTrace* loaded)
    : loaded_(loaded),
      request_(RequestOf(loaded->analysis)),
      classifier_(&loaded->stacks, &rules_, ResolverOf(loaded)),
      modules_(&loaded->stacks.objects(), &rules_),
      user_stages_(&loaded->analysis.marks, &loaded->stacks) {}

LabelVisitor* LivesAnalysis::BeginFirst(const LabelReplay& replay) {
  index_pass_.emplace(request_, SlotOfDevice(request_.device), &replay, &loaded_->stacks, &classifier_, &user_stages_);
  if (loaded_->analysis.events.by_kind.count("OPTIMIZER_STEP") == 0) index_pass_->CountIterations();
  return First(&*index_pass_, replay);
}

LabelVisitor* LivesAnalysis::BeginSecond(const LabelReplay& replay) {
  LifePass::Needs needs;
  needs.uses = {&replay,   &index_pass_->places(), index_pass_->has_tensors(), &classifier_,
                &modules_, &user_stages_,          index_pass_->LastLoop(),    index_pass_->FirstStackOfCalls()};
  needs.analysis = &loaded_->analysis;
  return Second(needs);
}

}  // namespace gpumem
