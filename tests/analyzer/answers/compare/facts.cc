// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "facts.h"

#include "absl/strings/str_cat.h"
#include "answers/compare/names.h"

namespace gpumem::testing {

RunFacts EmptyRun() {
  RunFacts facts;
  facts.moment = "peak";
  facts.ending = RunEnding::kCompleted;
  facts.has_moment = true;
  facts.device = 0;
  return facts;
}

void Hold(const Blocks& blocks, RunFacts* facts) {
  LiveGroup group;
  group.category = blocks.category;
  group.module = blocks.module;
  group.place = ParsePlace(blocks.place);
  group.place.through = blocks.through;
  group.count = blocks.count;
  group.bytes = blocks.count * blocks.size;
  group.smallest = group.largest = blocks.size;
  facts->groups.push_back(group);
  facts->categories[Index(blocks.category)] += group.bytes;
  for (uint64_t* const sum : {&facts->values.allocated, &facts->values.reserved, &facts->values.total,
                              &facts->peak_allocated, &facts->peak_reserved, &facts->peak_total})
    *sum += group.bytes;
}

void HoldInLayers(Blocks blocks, const std::string& name, uint64_t layers, RunFacts* facts) {
  for (uint64_t i = 0; i < layers; ++i) {
    blocks.module = absl::StrCat("layers.", i, ".", name);
    Hold(blocks, facts);
  }
}

void AddParameter(const std::string& name, const std::string& dtype, bool trainable, RunFacts* facts) {
  facts->parameters[name] = {{4, 4}, dtype, trainable};
}

}  // namespace gpumem::testing
