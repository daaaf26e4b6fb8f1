// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/ratchet_log.h"

#include <algorithm>

#include "replay/state/accounts.h"

namespace gpumem {
namespace {

// Of a stack's segments so many, in percent, must be larger than all before.
constexpr uint64_t kRisingPercent = 75;

}  // namespace

// The first block behind a segment's making is what it was made for.
void RatchetLog::AddFirst(const EventBatch& batch, size_t i) {
  const uint64_t address = std::exchange(address_, 0), size = std::exchange(size_, 0);
  const bool is_in_it = batch.address(i) >= address && batch.address(i) - address < size;
  if (!is_in_it || size < kLeastExact || batch.stack(i) == 0) return;
  const std::pair<uint32_t, uint64_t> key = {SlotOfDevice(batch.device(i)), batch.stack(i)};
  auto found = stacks_.find(key);
  if (found == stacks_.end()) {
    if (stacks_.size() >= kMost) return;
    found = stacks_.emplace(key, OfStack{}).first;
  }
  OfStack& of = found->second;
  ++of.segments;
  if (size <= of.rises.last) return;
  if (of.rises.segments++ == 0) of.rises.first = size;
  of.rises.last = size;
  of.rises.bytes += size;
}

std::vector<SizeRatchet> RatchetLog::Ratchets(uint32_t slot) const {
  std::vector<SizeRatchet> ratchets;
  for (const auto& [key, of] : stacks_) {
    if (key.first != slot || of.rises.segments < kLeastRises) continue;
    if (100 * of.rises.segments < kRisingPercent * of.segments) continue;
    ratchets.push_back(of.rises);
    ratchets.back().stack_id = key.second;
  }
  std::stable_sort(ratchets.begin(), ratchets.end(),
                   [](const SizeRatchet& a, const SizeRatchet& b) { return a.bytes > b.bytes; });
  return ratchets;
}

}  // namespace gpumem
