// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// StackImporter: PyTorch's lists of frames as stacks of a trace. A list that many entries share is looked at once, so
// the work is that of the file, not of its references. Not thread-safe; tree and builder must outlive it. Nothing
// fails: what is not a frame is passed over.
//
//   StackImporter stacks(&tree, &writer.definitions());
//   row.stack = stacks.Stack(entry.frames);

#ifndef GPUMEM_ANALYZER_IMPORT_STACK_IMPORTER_H_
#define GPUMEM_ANALYZER_IMPORT_STACK_IMPORTER_H_

#include <cstdint>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "import/pickle_tree.h"
#include "trace/write/definition_builder.h"

namespace gpumem {

// Whether a frame that states its file is of Python: PyTorch's lists mix them without a mark.
bool IsPythonFile(absl::string_view file);

class StackImporter {
 public:
  StackImporter(const PickleTree* tree, DefinitionBuilder* definitions);

  // Of a list of {filename, name, line}, innermost first. 0 for an empty one, and for what is not a list.
  uint64_t Stack(PickleValue frames);

 private:
  uint32_t Frame(PickleValue frame);

  const PickleTree* tree_;
  DefinitionBuilder* definitions_;
  std::optional<PickleValue> filename_, name_, line_;
  // By where their items lie: equal ones share that (PickleTree).
  absl::flat_hash_map<const PickleValue*, uint64_t> stacks_;
  absl::flat_hash_map<const PickleValue*, uint32_t> frames_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_IMPORT_STACK_IMPORTER_H_
