// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ModuleTable: the modules of a program's models, one row for each place in a model (root and name in it). An object
// whose root is not known has its class's row. Row 0 is "no module". Not thread-safe.
//
//   ModuleTable table(&stacks.objects(), &rules);
//   table.row(table.RowOf(classification.module)).fqn     // "transformer.h.0.attn"
//   table.OwnerOf(tensor)                        // row of the module that holds a parameter

#ifndef GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_MODULE_TABLE_H_
#define GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_MODULE_TABLE_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "ledger/attribution/category.h"
#include "ledger/attribution/rules.h"
#include "trace/object_table.h"

namespace gpumem {

struct ModuleRow {
  std::string fqn;  // "" for a root
  std::string class_name;
  std::string component;
  uint32_t root = 0;       // NnModule id; 0 = not known: `fqn` says nothing then
  std::string root_class;  // "" where not known
};

// The name of a module in tables and pictures: where it has none, its class in parentheses; "" of row 0.
std::string ModuleText(const ModuleRow& row);

class ModuleTable {
 public:
  // Both must outlive it.
  ModuleTable(const ObjectTable* objects, const Rules* rules);

  uint32_t RowOf(uint32_t nn_module);
  // Of the module that holds a parameter or a buffer; of a gradient or a state: of its parameter. A module that holds
  // weights and their adapters has a row for each.
  uint32_t OwnerOf(uint32_t tensor);

  // What a tensor's memory is within its category.
  Part PartOf(uint32_t tensor, Category category) const;

  const ModuleRow& row(uint32_t index) const { return rows_[index]; }
  size_t size() const { return rows_.size(); }

 private:
  using Place = std::pair<uint32_t, std::string>;  // root, name; root 0: the class

  uint32_t RowAt(uint32_t root, const std::string& name, absl::string_view class_name);
  std::string ComponentOfRow(const ModuleRow& row);
  bool HasShapeOfEmbedding(const ModuleRow& row);
  uint32_t RowOfPart(uint32_t holder, const TensorInfo& parameter);

  const ObjectTable* objects_;
  const Rules* rules_;
  std::vector<ModuleRow> rows_{ModuleRow{}};
  std::map<Place, uint32_t> places_;
  std::map<std::pair<uint32_t, std::string>, uint32_t> parts_;  // by row of the module and component
  std::map<uint32_t, uint32_t> of_module_, of_tensor_;
  std::map<Place, uint32_t> modules_;                                // by every name: NnModule id
  std::map<Place, std::vector<uint64_t>> weights_;                   // by module
  std::set<std::pair<uint32_t, std::vector<uint64_t>>> embeddings_;  // shapes, by root
  bool knows_shapes_ = false;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_MODULE_TABLE_H_
