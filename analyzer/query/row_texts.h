// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// RowTexts: what the ENUM columns of events, blocks and segments can say, and which of it each stack, module and
// function says; and what else rows have in common. Not thread-safe; what it is given must outlive it.
//
//   RowTexts texts(loaded, &facts);                 // in LifeReceiver::Begin
//   writer.Enum(texts.OfStack(block.stack).line);

#ifndef GPUMEM_ANALYZER_QUERY_ROW_TEXTS_H_
#define GPUMEM_ANALYZER_QUERY_ROW_TEXTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "ledger/stacks/lives.h"
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

  RowTexts(LoadedTrace* loaded, const LivesFacts* facts);

  const LivesFacts& facts() const { return *facts_; }
  const StackTexts& OfStack(uint64_t stack) const;
  const ModuleTexts& OfModule(uint32_t row);  // LivesFacts::modules
  std::string ModuleName(uint32_t number) const {
    return number == Dictionary::kNone ? "" : module_names_.texts()[number];
  }
  uint32_t OfApi(uint32_t api) const;
  uint32_t OfUserStage(uint32_t number) const;
  uint32_t OfPart(Part part) const { return part_texts_[static_cast<size_t>(part)]; }
  uint32_t OfKind(uint32_t kind) const;
  static uint32_t OfLayer(uint8_t layer) { return layer == 0 || layer > 3 ? Dictionary::kNone : layer - 1u; }
  static uint32_t OfMemory(uint8_t memory) { return memory > 9 ? Dictionary::kNone : memory; }

  TableWriter::Dictionaries dictionaries() const;

  void WriteStep(uint64_t event, TableWriter* writer) const;
  int64_t Since(uint64_t time_ns) const {
    return static_cast<int64_t>(time_ns) - static_cast<int64_t>(loaded_->analysis.origin_ns);
  }
  uint32_t ThreadOf(uint32_t thread) const;

 private:
  void AddFixed();
  void AddModules();

  LoadedTrace* loaded_;
  const LivesFacts* facts_;
  absl::flat_hash_map<uint32_t, uint32_t> apis_;
  absl::flat_hash_map<uint64_t, StackTexts> stack_texts_;
  std::vector<ModuleTexts> module_texts_;
  std::vector<uint32_t> user_stage_texts_, kind_texts_, part_texts_;
  Dictionary kinds_, layers_, memories_, api_names_, categories_, evidences_, parts_, module_names_, classes_,
      components_, stages_, user_stages_, lines_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_QUERY_ROW_TEXTS_H_
