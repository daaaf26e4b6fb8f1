// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/attribution/classify.h"

#include <algorithm>

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
bool IsFromOutside(const StackClassification& classification) {
  return classification.origin != Origin::kComputed && classification.module == 0 &&
         (classification.stage == Stage::kNone || classification.stage == Stage::kData ||
          classification.stage == Stage::kEvaluation);
}

// Held for two steps or iterations, or from a line of which others are: a list, a dictionary. Of what a backward pass
// made, gradients of parameters without an optimizer stay, too, but only those of one step.
bool IsHeld(const BlockLife& life, const StackClassification& classification) {
  if (IsSetUp(classification.stage) || classification.accumulates) return false;
  if (classification.stage == Stage::kBackward) return life.are_of_several_steps && life.oldest_steps >= 2;
  return std::max(life.optimizer_steps, life.oldest_steps) >= 2 || life.oldest_iterations >= 2 || life.are_many;
}

// What stage and length of life tell of a block that nothing was said of.
Category ByLife(const BlockLife& life, const StackClassification& classification) {
  const bool lasted = life.optimizer_steps > 0;
  const Stage stage = classification.stage;
  if (stage == Stage::kData) return Category::kInput;
  if (IsFromOutside(classification) && classification.origin == Origin::kMoved && !lasted) return Category::kInput;
  // Gradients that stay are looked at at some step; what stays longer than one and never was one is something else.
  const bool is_gradient = life.has_tensors ? life.optimizer_steps == 1 : lasted || classification.accumulates;
  const bool is_held = IsHeld(life, classification);
  if (stage == Stage::kBackward && is_gradient && !classification.recomputed && !is_held) return Category::kGradient;
  // A trainer may run the forward pass inside of the step, and keep the loss until the next one.
  const bool is_optimizers = stage == Stage::kOptimizer || stage == Stage::kOptimizerSetup;
  const bool is_state = life.has_tensors ? life.optimizer_steps > 1 : lasted || life.alive;
  if (is_optimizers && is_state) return Category::kOptimizerState;
  if (!life.has_tensors && life.alive && IsSetUp(stage)) return Category::kParameter;
  if (life.iterations >= 2 || is_held) return Category::kKept;
  // Gone before a second step began. What is there at the end was kept, by whomever.
  const bool is_short = life.optimizer_steps < 2 && !life.alive;
  return is_short && !(IsSetUp(stage) && lasted) ? Category::kTemporary : Category::kUnknown;
}

CategoryVerdict VerdictOf(const BlockLife& life, const StackClassification& classification) {
  if (classification.stated) return {*classification.stated, Evidence::kStated};
  // A module's output is never an input batch, even if the next module receives it.
  const bool is_batch = life.role == TensorRole::kInput && classification.module == 0;
  if (life.role != TensorRole::kNone && (is_batch || life.role != TensorRole::kInput))
    return {CategoryOf(life.role), Evidence::kAddress};
  // What collectives make may be gradients for good: the shards of a reduce-scatter.
  const bool outlasts = life.optimizer_steps > 0 || life.optimizer_ends > 0 || life.alive;
  // A batch that is accumulated sample by sample takes several backward passes to a step: what each of them makes for
  // the samples is gone before the step.
  const bool is_likely_gradient = life.likely == TensorRole::kGradient && (outlasts || life.likely_per_sample);
  if (classification.category == Category::kCommunication && is_likely_gradient)
    return {Category::kGradient, Evidence::kStack};
  // Autograd may keep memory of a collective as well, parameters that were gathered; and what a library has for good.
  const bool stays = life.optimizer_steps > 1;
  if (classification.category && (!life.saved || *classification.category == Category::kCommunication ||
                                  (*classification.category == Category::kWorkspace && stays)))
    return {*classification.category, Evidence::kRule};
  // Module.to and the like make each parameter and buffer anew, in the same place.
  const bool is_likely_models = life.likely == TensorRole::kParameter || life.likely == TensorRole::kBuffer;
  if (is_likely_models && classification.origin == Origin::kMoved) return {CategoryOf(life.likely), Evidence::kStack};
  // Autograd keeps batches too.
  if (life.likely == TensorRole::kInput && classification.module == 0) return {Category::kInput, Evidence::kStack};
  if (life.saved && IsFromOutside(classification)) return {Category::kInput, Evidence::kRule};
  if (life.saved) return {Category::kActivation, Evidence::kAutograd};
  if (is_likely_gradient) return {Category::kGradient, Evidence::kStack};
  if (life.likely == TensorRole::kInput) return {Category::kInput, Evidence::kStack};
  return {ByLife(life, classification), Evidence::kRule};
}

}  // namespace

CategoryVerdict Classify(const BlockLife& life, const StackClassification& classification) {
  CategoryVerdict verdict = VerdictOf(life, classification);
  if (verdict.category == Category::kUnknown) verdict.evidence = Evidence::kNone;
  return verdict;
}

}  // namespace gpumem
