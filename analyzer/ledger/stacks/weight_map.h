// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// WeightMap: weights by key, bounded. Where more than twice `most` keys have come together the smallest half is merged
// into one sum, so a hostile or endless trace costs no more than that, at a price of O(1) an addition. Not thread-safe.
//
//   WeightMap map(1 << 20);
//   map.Add({stack, slot, thread, 0}, {bytes, 1}, api);
//   map.Take(&aggregated);

#ifndef GPUMEM_ANALYZER_LEDGER_STACKS_WEIGHT_MAP_H_
#define GPUMEM_ANALYZER_LEDGER_STACKS_WEIGHT_MAP_H_

#include <cstddef>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "ledger/stacks/aggregated_stacks.h"

namespace gpumem {

struct WeightKey {
  uint64_t stack = 0;
  uint64_t size = 0;
  uint32_t slot = 0;
  uint32_t thread = 0;
  uint32_t group = 0;

  friend bool operator==(const WeightKey&, const WeightKey&) = default;
  template <typename H>
  friend H AbslHashValue(H state, const WeightKey& key) {
    return H::combine(std::move(state), key.stack, key.size, key.slot, key.thread, key.group);
  }
};

class WeightMap {
 public:
  explicit WeightMap(size_t most) : most_(most == 0 ? 1 : most) {}

  void Add(const WeightKey& key, const Weight& weight, uint32_t api) {
    // Neighbours in time mostly have different stacks, but loops ask for the same again and again.
    if (last_ == nullptr || !(key == last_key_)) Find(key, api);
    last_->weight.Add(weight);
    if (last_->api != api) last_->api = 0;
    all_.Add(weight);
  }

  // Moves everything into `result`, sorted, and is empty afterwards. `parts`: of a byte, in which the weights were
  // added; each is rounded, and sums are of what was rounded.
  void Take(AggregatedStacks* result, uint64_t parts = 1);

 private:
  struct Value {
    Weight weight;
    uint32_t api = 0;
  };

  void Find(const WeightKey& key, uint32_t api);
  void Shrink();

  size_t most_;
  absl::flat_hash_map<WeightKey, Value> map_;
  WeightKey last_key_;
  Value* last_ = nullptr;
  Weight all_, merged_;
  uint64_t merged_entries_ = 0;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_STACKS_WEIGHT_MAP_H_
