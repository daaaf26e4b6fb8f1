// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/stacks/weight_map.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "replay/state/accounts.h"

namespace gpumem {
namespace {

bool IsLarger(const AggregatedStack& a, const AggregatedStack& b) {
  return std::tie(b.weight.bytes, b.weight.count, a.stack_id, a.device, a.thread, a.size, a.group) <
         std::tie(a.weight.bytes, a.weight.count, b.stack_id, b.device, b.thread, b.size, b.group);
}

void RoundToBytes(uint64_t parts, AggregatedStacks* result) {
  const auto round = [parts](uint64_t sum) { return sum / parts + (sum % parts >= parts - parts / 2 ? 1 : 0); };
  result->merged.bytes = round(result->merged.bytes);
  result->all = result->merged;
  for (AggregatedStack& stack : result->stacks) {
    stack.weight.bytes = round(stack.weight.bytes);
    result->all.Add(stack.weight);
  }
}

}  // namespace

void WeightMap::Find(const WeightKey& key, uint32_t api) {
  if (map_.size() >= 2 * most_) Shrink();
  const auto [it, is_new] = map_.try_emplace(key);
  if (is_new) it->second.api = api;
  last_key_ = key;
  last_ = &it->second;
}

// The larger half stays. The order is total, so that the same trace gives the same answer each time.
void WeightMap::Shrink() {
  std::vector<std::pair<uint64_t, WeightKey>> entries;
  entries.reserve(map_.size());
  for (const auto& [key, value] : map_) entries.emplace_back(value.weight.bytes, key);
  const auto first_merged = entries.begin() + static_cast<std::ptrdiff_t>(most_);
  std::nth_element(entries.begin(), first_merged, entries.end(), [](const auto& a, const auto& b) {
    const WeightKey &x = a.second, &y = b.second;
    return std::tie(b.first, x.stack, x.slot, x.thread, x.size, x.group) <
           std::tie(a.first, y.stack, y.slot, y.thread, y.size, y.group);
  });
  for (auto entry = first_merged; entry != entries.end(); ++entry) {
    const auto it = map_.find(entry->second);
    merged_.Add(it->second.weight);
    map_.erase(it);
  }
  merged_entries_ += static_cast<uint64_t>(entries.end() - first_merged);
}

void WeightMap::Take(AggregatedStacks* result, uint64_t parts) {
  last_ = nullptr;
  if (map_.size() > most_) Shrink();
  result->stacks.clear();
  result->stacks.reserve(map_.size());
  for (const auto& [key, value] : map_) {
    result->stacks.push_back(
        {key.stack, DeviceOfSlot(key.slot), key.thread, value.api, key.size, value.weight, key.group});
  }
  map_ = {};
  result->all = std::exchange(all_, {});
  result->merged = std::exchange(merged_, {});
  if (parts > 1) RoundToBytes(parts, result);
  result->shown = result->all;
  std::sort(result->stacks.begin(), result->stacks.end(), IsLarger);
  result->merged_entries = std::exchange(merged_entries_, 0);
}

}  // namespace gpumem
