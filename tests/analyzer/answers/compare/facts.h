// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

// RunFacts made by hand: each Hold adds blocks and the totals that follow from them.

#ifndef GPUMEM_TESTS_ANALYZER_ANSWERS_COMPARE_FACTS_H_
#define GPUMEM_TESTS_ANALYZER_ANSWERS_COMPARE_FACTS_H_

#include <cstdint>
#include <string>

#include "answers/compare/run_facts.h"

namespace gpumem::testing {

inline constexpr uint64_t kMiB = uint64_t{1} << 20;

struct Blocks {
  Category category = Category::kActivation;
  std::string module = "";
  std::string place = "train.py:10 Block.forward";
  std::string through = "aten::linear";
  uint64_t count = 1, size = kMiB;
};

// A run that completed and holds nothing yet.
RunFacts EmptyRun();
void Hold(const Blocks& blocks, RunFacts* facts);
// The same blocks in each layer "layers.N.NAME".
void HoldInLayers(Blocks blocks, const std::string& name, uint64_t layers, RunFacts* facts);
void AddParameter(const std::string& name, const std::string& dtype, bool trainable, RunFacts* facts);

}  // namespace gpumem::testing

#endif  // GPUMEM_TESTS_ANALYZER_ANSWERS_COMPARE_FACTS_H_
