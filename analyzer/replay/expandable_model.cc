// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/expandable_model.h"

#include <algorithm>
#include <iterator>

namespace gpumem {
namespace {

// No device has as much; a damaged trace may say so.
constexpr uint64_t kLargestBlock = uint64_t{1} << 44;

}  // namespace

void ExpandablePool::Reserve(uint64_t size) {
  top_ = end_ == 0 ? 0 : end_ + page_;  // never next to the one before
  end_ = top_ + std::max(reservation_, RoundUp(size, page_));
}

uint64_t ExpandablePool::Alloc(uint64_t size) {
  uint64_t address = 0, room = 0;
  if (const auto best = by_size_.lower_bound({size, 0}); best != by_size_.end()) {
    address = best->second;
    room = best->first;
    EraseFree(free_.find(address));
  } else {
    auto last = free_.empty() ? free_.end() : std::prev(free_.end());
    const bool is_at_top = last != free_.end() && last->first + last->second == top_;
    address = is_at_top ? last->first : top_;
    if (address + size > end_) {
      Reserve(size);
      address = top_;
    } else if (is_at_top) {
      EraseFree(last);
    }
    const uint64_t top = RoundUp(address + size, page_);
    mapped_ += top - top_;
    top_ = top;
    room = top_ - address;
  }
  blocks_[address] = size;
  if (room > size) AddFree(address + size, room - size);
  return address;
}

void ExpandablePool::Free(uint64_t address) {
  const auto block = blocks_.find(address);
  if (block == blocks_.end()) return;
  uint64_t start = address, end = address + block->second;
  blocks_.erase(block);
  if (const auto next = free_.find(end); next != free_.end()) {
    end += next->second;
    EraseFree(next);
  }
  if (auto before = free_.lower_bound(start); before != free_.begin()) {
    --before;
    if (before->first + before->second == start) {
      start = before->first;
      EraseFree(before);
    }
  }
  AddFree(start, end - start);
}

void ExpandablePool::AddFree(uint64_t address, uint64_t size) {
  free_[address] = size;
  by_size_.insert({size, address});
}

void ExpandablePool::EraseFree(std::map<uint64_t, uint64_t>::iterator range) {
  by_size_.erase({range->second, range->first});
  free_.erase(range);
}

uint64_t ExpandablePool::LeastMapped() const {
  uint64_t mapped = mapped_;
  for (const auto& [address, size] : free_) {
    const uint64_t first = RoundUp(address, page_), last = RoundDown(address + size, page_);
    if (last > first) mapped -= last - first;
  }
  return mapped;
}

uint64_t ExpandablePool::LargestFit(uint64_t free) const {
  const uint64_t pages = RoundDown(free, page_);
  uint64_t best = pages;  // in a new reservation
  for (const auto& [address, size] : free_) {
    const uint64_t end = address + size;
    const uint64_t first = RoundUp(address, page_), last = RoundDown(end, page_);
    uint64_t fit = size;
    if (end == top_) {
      fit = LargestInHole(first - address, end_ - first, 0, pages);
    } else if (last > first) {
      fit = LargestInHole(first - address, last - first, end - last, pages);
    }
    best = std::max(best, fit);
  }
  return best;
}

ExpandableModel::Device& ExpandableModel::DeviceOf(uint32_t slot) {
  const auto total = totals_.find(slot);
  uint64_t reservation = total == totals_.end() ? 0 : total->second;
  reservation = reservation == 0 ? kLargestBlock : std::min(reservation, kLargestBlock) / 8 * 9;
  return devices_.try_emplace(slot, Device{{kSmallPage, reservation}, {kLargePage, reservation}}).first->second;
}

void ExpandableModel::Begin(LiveState* state) {
  state_ = state;
  devices_.clear();
  placed_.clear();
  for (uint32_t place = 0; place < state->blocks().places(); ++place) {
    if (state->blocks()[place].live) OnAlloc(Held::kBlock, place);
  }
  state->Observe(this);
}

void ExpandableModel::OnAlloc(Held kind, uint32_t place) {
  if (kind != Held::kBlock) return;
  const TorchBlock& block = state_->blocks()[place];
  // A block is larger than was asked for where a rest was too small to be split off; expandable segments split all.
  if (std::max(block.size, block.requested) > kLargestBlock) return;
  uint64_t size = RoundUp(std::max<uint64_t>(block.requested == 0 ? block.size : block.requested, 1), kBlockStep);
  if (block.size > size + kLargestSmallBlock) size = RoundUp(block.size, kBlockStep);  // rounded on demand
  Placed placed{block.slot, size <= kLargestSmallBlock, 0};
  Device& device = DeviceOf(placed.slot);
  ExpandablePool& pool = placed.is_small ? device.small : device.large;
  if (pool.is_full()) return;
  placed.address = pool.Alloc(size);
  placed_[place] = placed;
}

void ExpandableModel::OnFree(Held kind, uint32_t place) {
  if (kind != Held::kBlock) return;
  const auto found = placed_.find(place);
  if (found == placed_.end()) return;
  Device& device = DeviceOf(found->second.slot);
  (found->second.is_small ? device.small : device.large).Free(found->second.address);
  placed_.erase(found);
}

std::optional<uint64_t> ExpandableModel::LargestFit(uint32_t slot, uint64_t bytes, uint64_t limit) {
  if (state_ == nullptr || state_->has_gap()) return std::nullopt;
  const Device& device = DeviceOf(slot);
  const uint64_t mapped = device.small.LeastMapped() + device.large.LeastMapped();
  // The limit is compared with the request, not with the pages that it needs.
  const uint64_t fit = device.large.LargestFit(bytes > mapped ? bytes - mapped : 0);
  return std::min(fit, std::max(LargestInNewSegment(limit > mapped ? limit - mapped : 0), device.large.LargestFit(0)));
}

}  // namespace gpumem
