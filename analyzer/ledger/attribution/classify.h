// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What a block was for, once its life is known. Pure; docs/attribution.md has the order of the evidence in words.
//
//   const CategoryVerdict verdict = Classify(life, classification, place);   // {Category::kGradient, Evidence::kStack}

#ifndef GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_CLASSIFY_H_
#define GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_CLASSIFY_H_

#include <cstdint>

#include "ledger/attribution/category.h"
#include "ledger/attribution/stack_classification.h"
#include "trace/object_table.h"

namespace gpumem {

struct BlockLife {
  TensorRole role = TensorRole::kNone;    // that was said of it
  TensorRole likely = TensorRole::kNone;  // of other blocks from the same place
  bool likely_per_sample = false;         // these were gradients for each sample
  bool saved = false;
  bool alive = false;            // at the trace's end
  uint32_t optimizer_steps = 0;  // that began during its life
  uint32_t optimizer_ends = 0;   // that ended during it: a closure makes gradients in the middle of a step
  uint32_t iterations = 0;       // that ended during it, of a program without an optimizer
  bool has_tensors = false;      // of the trace: the program's tensors were looked at
  // Of what is alive at the end: how long the oldest block of its stack has been there, whether these were made over
  // several steps, and whether they are many, of an evaluation or a program that neither trains nor uses autograd.
  uint32_t oldest_steps = 0, oldest_iterations = 0;
  bool are_of_several_steps = false, are_many = false;
};

struct CategoryVerdict {
  Category category = Category::kUnknown;
  Evidence evidence = Evidence::kRule;
};

CategoryVerdict Classify(const BlockLife& life, const StackClassification& classification);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_CLASSIFY_H_
