// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// UseSums: what is alive at one moment, block by block, as the sums that a Moment has. Not thread-safe.
//
//   UseSums sums;
//   for (...) sums.Add(use);
//   moment.categories = WithTotals(...);
//   sums.Fill(classify, &moment);

#ifndef GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_USE_SUMS_H_
#define GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_USE_SUMS_H_

#include <cstdint>
#include <functional>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "ledger/attribution/attribution.h"

namespace gpumem {

// What the replay itself says of a moment.
struct MomentTotals {
  MeasureValues values;
  uint64_t context = 0, graphs = 0;
};

// Uses with the same one are one row.
using UseKey = std::tuple<uint64_t, uint8_t, uint8_t, Category, Evidence, Part, uint32_t, uint32_t, uint32_t>;
inline UseKey KeyOf(const AttributedUse& use) {
  return {use.stack_id, use.layer,  use.memory, use.category,  use.evidence,
          use.part,     use.module, use.name,   use.user_stage};
}

// `sums`: of what is alive, by category. With what no block is: graphs, overhead, context; and what is left.
CategoryBytes WithTotals(const CategoryBytes& sums, const MomentTotals& totals);

class UseSums {
 public:
  void Add(const AttributedUse& use);
  // All but the moment's place, values and categories, which are set before. `classify` sets stage, recomputed and
  // is_loss; absent: they are set.
  void Fill(const std::function<void(AttributedUse*)>& classify, Moment* moment) const;

 private:
  absl::flat_hash_map<UseKey, AttributedUse> uses_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_USE_SUMS_H_
