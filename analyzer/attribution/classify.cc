// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "attribution/classify.h"

namespace gpumem {
namespace {

Category CategoryOf(TensorRole role) {
  switch (role) {
    case TensorRole::kParameter:
      return Category::kParameter;
    case TensorRole::kBuffer:
      return Category::kBuffer;
    case TensorRole::kGradient:
      return Category::kGradient;
    case TensorRole::kOptimizerState:
      return Category::kOptimizerState;
    case TensorRole::kInput:
      return Category::kInput;
    case TensorRole::kNone:
      break;
  }
  return Category::kUnknown;
}

// Made or brought in by the program itself, for its model: nothing that a model computed.
bool IsFromOutside(const StackSense& sense) {
  return sense.origin != Origin::kComputed && sense.module == 0 &&
         (sense.stage == Stage::kNone || sense.stage == Stage::kData || sense.stage == Stage::kEvaluation);
}

// What stage and length of life tell of a block that nothing was said of.
Category ByLife(const BlockLife& life, const StackSense& sense) {
  const bool lasted = life.optimizer_steps > 0;
  const Stage stage = sense.stage;
  if (stage == Stage::kData) return Category::kInput;
  if (IsFromOutside(sense) && sense.origin == Origin::kMoved && !lasted) return Category::kInput;
  // Gradients that stay are looked at at some step; what stays longer than one and never was one is something else.
  const bool is_gradient = life.has_tensors ? life.optimizer_steps == 1 : lasted || sense.accumulates;
  if (stage == Stage::kBackward && is_gradient && !sense.recomputed) return Category::kGradient;
  // A trainer may run the forward pass inside of the step, and keep the loss until the next one.
  const bool is_optimizers = stage == Stage::kOptimizer || stage == Stage::kOptimizerSetup;
  const bool is_state = life.has_tensors ? life.optimizer_steps > 1 : lasted || life.alive;
  if (is_optimizers && is_state) return Category::kOptimizerState;
  if (!life.has_tensors && life.alive && IsSetUp(stage)) return Category::kParameter;
  // Gone before a second step began, or made in the last one.
  const bool is_short = life.optimizer_steps < 2 && (!life.alive || stage != Stage::kNone);
  return is_short && !(IsSetUp(stage) && (lasted || life.alive)) ? Category::kTemporary : Category::kUnknown;
}

}  // namespace

Verdict Classify(const BlockLife& life, const StackSense& sense) {
  // What a module made is no batch, though the next one was given it.
  const bool is_batch = life.role == TensorRole::kInput && sense.module == 0;
  if (life.role != TensorRole::kNone && (is_batch || life.role != TensorRole::kInput))
    return {CategoryOf(life.role), Evidence::kAddress};
  // What collectives make may be gradients for good: the shards of a reduce-scatter.
  const bool outlasts = life.optimizer_steps > 0 || life.optimizer_ends > 0 || life.alive;
  // A batch that is accumulated sample by sample takes several backward passes to a step: what each of them makes for
  // the samples is gone before the step.
  const bool is_likely_gradient = life.likely == TensorRole::kGradient && (outlasts || life.likely_per_sample);
  if (sense.category == Category::kCommunication && is_likely_gradient) return {Category::kGradient, Evidence::kStack};
  // Autograd may keep memory of a collective as well, parameters that were gathered; and what a library has for good.
  const bool stays = life.optimizer_steps > 1;
  if (sense.category && (!life.saved || *sense.category == Category::kCommunication ||
                         (*sense.category == Category::kWorkspace && stays)))
    return {*sense.category, Evidence::kRule};
  // Autograd keeps batches too.
  if (life.likely == TensorRole::kInput && sense.module == 0) return {Category::kInput, Evidence::kStack};
  if (life.saved && IsFromOutside(sense)) return {Category::kInput, Evidence::kRule};
  if (life.saved) return {Category::kActivation, Evidence::kAutograd};
  if (is_likely_gradient) return {Category::kGradient, Evidence::kStack};
  if (life.likely == TensorRole::kInput) return {Category::kInput, Evidence::kStack};
  return {ByLife(life, sense), Evidence::kRule};
}

}  // namespace gpumem
