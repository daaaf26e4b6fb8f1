// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// RowTexts: what the ENUM columns of events, blocks and segments can say, and which of it each stack, module and
// function says. Filled between the two replays from what the first one saw; looked up in the second. Not thread-safe;
// what it is given must outlive it.
//
//   RowTexts texts(loaded, &classifier, &modules);
//   texts.SawStack(batch.stack(i));  ...  texts.Finish(user_stages);
//   writer.Enum(texts.OfStack(block.stack).line);

#ifndef GPUMEM_ANALYZER_QUERY_ROW_TEXTS_H_
#define GPUMEM_ANALYZER_QUERY_ROW_TEXTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "ledger/attribution/module_table.h"
#include "ledger/attribution/stack_classification.h"
#include "ledger/load/load_trace.h"
#include "query/table_writer.h"

namespace gpumem {

class RowTexts {
 public:
  // Numbers in dictionaries.
  struct StackTexts {
    uint32_t line = Dictionary::kNone, module = Dictionary::kNone, stage = Dictionary::kNone;
    bool recomputed = false;
  };
  struct ModuleTexts {
    uint32_t name = Dictionary::kNone, class_name = Dictionary::kNone, component = Dictionary::kNone;
  };

  RowTexts(LoadedTrace* loaded, StackClassifier* classifier, ModuleTable* modules)
      : loaded_(loaded), classifier_(classifier), modules_(modules) {}

  void SawStack(uint64_t stack) {
    if (stack != 0) stacks_.insert(stack);
  }
  void SawApi(uint32_t api) {
    if (api != 0) apis_.try_emplace(api, Dictionary::kNone);
  }
  // `user_stages`: UserStages::names().
  void Finish(const std::vector<std::string>& user_stages);

  const StackTexts& OfStack(uint64_t stack) const;
  const ModuleTexts& OfModule(uint32_t row) const;
  uint32_t OfApi(uint32_t api) const;
  uint32_t OfUserStage(uint32_t number) const;
  uint32_t OfKind(uint32_t kind) const;
  static uint32_t OfLayer(uint8_t layer) { return layer == 0 || layer > 3 ? Dictionary::kNone : layer - 1u; }
  static uint32_t OfMemory(uint8_t memory) { return memory > 9 ? Dictionary::kNone : memory; }

  TableWriter::Dictionaries dictionaries() const;
  // Ascending.
  std::vector<uint64_t> Stacks() const;

 private:
  LoadedTrace* loaded_;
  StackClassifier* classifier_;
  ModuleTable* modules_;
  absl::flat_hash_set<uint64_t> stacks_;
  absl::flat_hash_map<uint32_t, uint32_t> apis_;
  absl::flat_hash_map<uint64_t, StackTexts> stack_texts_;
  std::vector<ModuleTexts> module_texts_;
  std::vector<uint32_t> user_stage_texts_, kind_texts_;
  Dictionary kinds_, layers_, memories_, api_names_, categories_, evidences_, parts_, module_names_, classes_,
      components_, stages_, user_stages_, lines_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_QUERY_ROW_TEXTS_H_
