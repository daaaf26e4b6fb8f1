// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Layers: what the rows of a timeline are made of, by one property of memory (category, module, line, stream): each
// value of it has the changes of its bytes from row to row. Memory that lives between two rows changes nothing. Not
// thread-safe; a value.
//
//   Layers layers;
//   layers.Add(key, rows.At(life.born), rows.At(life.end), life.size);
//   for (const Layer& layer : layers.Take(24)) ...   // the highest; what is left is one layer with kOtherKeys

#ifndef GPUMEM_ANALYZER_WEB_LAYERS_H_
#define GPUMEM_ANALYZER_WEB_LAYERS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace gpumem {

inline constexpr uint32_t kOtherKeys = UINT32_MAX;

struct LayerChange {
  size_t row = 0;
  int64_t bytes = 0;  // added in this row to what was there in the row before
};

struct Layer {
  uint32_t key = 0;
  uint64_t keys = 1;                 // that it stands for
  uint64_t highest = 0;              // bytes, in any row
  std::vector<LayerChange> changes;  // by row; none is 0
};

class Layers {
 public:
  // Memory that is there in rows [from, to).
  void Add(uint32_t key, size_t from, size_t to, uint64_t bytes);
  // The `most` highest layers, highest first, and one of all others. Empties this.
  std::vector<Layer> Take(size_t most);

 private:
  absl::flat_hash_map<uint32_t, absl::flat_hash_map<size_t, int64_t>> changes_;  // by key and row
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_WEB_LAYERS_H_
