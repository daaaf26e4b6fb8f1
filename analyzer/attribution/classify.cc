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

// What stage and length of life tell of a block that nothing was said of.
Category ByLife(const BlockLife& life, const StackSense& sense) {
  const bool lasted = life.optimizer_steps > 0;
  const Stage stage = sense.stage;
  if (stage == Stage::kData) return Category::kInput;
  // Gradients that stay are looked at at some step; what stays longer than one and never was one is something else.
  const bool is_gradient = life.has_tensors ? life.optimizer_steps == 1 : lasted || sense.accumulates;
  if (stage == Stage::kBackward && is_gradient && !sense.recomputed) return Category::kGradient;
  if (stage == Stage::kOptimizer && (lasted || (life.alive && !life.has_tensors))) return Category::kOptimizerState;
  if (!life.has_tensors && life.alive && (stage == Stage::kConstruction || stage == Stage::kLoad))
    return Category::kParameter;
  // Gone before a second step began, or made in the last one.
  const bool is_short = life.optimizer_steps < 2 && (!life.alive || stage != Stage::kNone);
  const bool sets_up = stage == Stage::kConstruction || stage == Stage::kLoad;
  return is_short && !(sets_up && (lasted || life.alive)) ? Category::kTemporary : Category::kUnknown;
}

}  // namespace

Verdict Classify(const BlockLife& life, const StackSense& sense) {
  if (life.role != TensorRole::kNone) return {CategoryOf(life.role), Evidence::kAddress};
  // Memory of a collective may be kept by autograd as well: parameters that were gathered.
  if (sense.category && (!life.saved || *sense.category == Category::kCommunication))
    return {*sense.category, Evidence::kRule};
  // Autograd keeps batches too.
  if (life.likely == TensorRole::kInput && sense.module == 0) return {Category::kInput, Evidence::kStack};
  if (life.saved) return {Category::kActivation, Evidence::kAutograd};
  const bool outlasts = life.optimizer_steps > 0 || life.alive;
  if (life.likely == TensorRole::kGradient && outlasts) return {Category::kGradient, Evidence::kStack};
  if (life.likely == TensorRole::kInput) return {Category::kInput, Evidence::kStack};
  return {ByLife(life, sense), Evidence::kRule};
}

}  // namespace gpumem
