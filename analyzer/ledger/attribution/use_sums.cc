// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/attribution/use_sums.h"

#include <algorithm>

namespace gpumem {
namespace {

uint64_t Missing(uint64_t all, uint64_t some) { return all > some ? all - some : 0; }

}  // namespace

CategoryBytes WithTotals(const CategoryBytes& sums, const MomentTotals& totals) {
  CategoryBytes bytes = sums;
  const uint64_t known = std::accumulate(sums.begin(), sums.end(), uint64_t{0});
  bytes[Index(Category::kGraphPool)] += totals.graphs;
  bytes[Index(Category::kAllocatorOverhead)] = Missing(totals.values.reserved, totals.values.allocated);
  bytes[Index(Category::kContext)] = totals.context;
  bytes[Index(Category::kUnknown)] += Missing(totals.values.allocated + totals.values.other, known + totals.graphs);
  return bytes;
}

void UseSums::Add(const AttributedUse& use) {
  const auto [it, is_new] = uses_.try_emplace(KeyOf(use), use);
  const uint64_t asked = use.tensor_bytes == 0 ? use.bytes : use.tensor_bytes;
  if (is_new) it->second.smallest = it->second.largest = asked;
  if (is_new) return;
  it->second.smallest = std::min(it->second.smallest, asked);
  it->second.largest = std::max(it->second.largest, asked);
  it->second.bytes += use.bytes;
  it->second.tensor_bytes += use.tensor_bytes;
  it->second.count += use.count;
}

void UseSums::Fill(const std::function<void(AttributedUse*)>& classify, Moment* moment) const {
  CategoryBytes attributed{};
  for (const auto& [key, use] : uses_) {
    const size_t category = Index(use.category);
    moment->counts[category] += use.count;
    moment->tensor_bytes[category] += use.tensor_bytes;
    moment->by_evidence[category][Index(use.evidence)] += use.bytes;
    moment->parts[Index(use.part)] += use.bytes;
    attributed[category] += use.bytes;
    AttributedUse& shown = moment->uses.emplace_back(use);
    if (classify) classify(&shown);
  }
  for (size_t category = 0; category < kCategories; ++category) {
    moment->by_evidence[category][Index(Evidence::kMeasured)] +=
        Missing(moment->categories[category], attributed[category]);
  }
  std::sort(moment->uses.begin(), moment->uses.end(), [](const AttributedUse& a, const AttributedUse& b) {
    return std::make_tuple(b.bytes, a.stack_id, a.category, a.evidence, a.part, a.module, a.name, a.user_stage) <
           std::make_tuple(a.bytes, b.stack_id, b.category, b.evidence, b.part, b.module, b.name, b.user_stage);
  });
}

}  // namespace gpumem
