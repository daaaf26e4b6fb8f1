// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// DictRest: what a sequence of dicts says beyond what a reader expects of each. Of most it knows the values of some
// keys (a trace's event says address and size); then only the rest is kept: values that differ, keys that it does not
// know, which mostly are the same from one dict to the next and are kept where they change, and dicts of which it knows
// nothing. WriteTo's pickle:
//
//   {"changes": [(index, missing keys as bits, {other keys}), ...],    from this dict on
//    "patches": [(index, {known keys}), ...],                          of this dict alone
//    "whole":   [(index, value), ...]}
//
// Not thread-safe; the tree must outlive it. Nothing fails: Spend of the memory says whether it may go on.
//
//   DictRest rest(&tree, {"action", "addr"}, &memory);
//   rest.Take(i, dict, [&](size_t key, PickleValue value) { return key == 1 && tree.Int(value) == address; });

#ifndef GPUMEM_ANALYZER_IMPORT_DICT_REST_H_
#define GPUMEM_ANALYZER_IMPORT_DICT_REST_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "import/import.h"
#include "import/pickle_tree.h"
#include "import/pickle_writer.h"

namespace gpumem {

class DictRest {
 public:
  DictRest(const PickleTree* tree, absl::Span<const absl::string_view> known, ImportMemory* memory);

  // Indices rise. `agrees`: the value of a known key, by its number, is the expected one.
  void Take(uint64_t index, PickleValue dict, absl::FunctionRef<bool(size_t key, PickleValue value)> agrees);
  void TakeWhole(uint64_t index, PickleValue value);

  // Its dict, without closing it: further keys may follow.
  void WriteTo(PickleWriter* pickle, PickledTree* values) const;

 private:
  struct Part {
    uint64_t index = 0, missing = 0;
    std::vector<PickleValue> items;  // keys and values in turn
  };

  bool IsAsBefore(uint64_t missing) const;
  void WriteParts(absl::string_view name, const std::vector<Part>& parts, bool with_missing, PickleWriter* pickle,
                  PickledTree* values) const;

  const PickleTree* tree_;
  ImportMemory* memory_;
  std::vector<PickleValue> known_;
  std::vector<Part> changes_, patches_, whole_;
  std::vector<PickleValue> others_, differing_;  // of the dict at hand
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_IMPORT_DICT_REST_H_
