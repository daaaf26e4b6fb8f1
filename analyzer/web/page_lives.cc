// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "web/page_lives.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace gpumem {
namespace {

constexpr uint64_t kEvent = uint64_t{1} << 63, kMoment = uint64_t{1} << 62;

uint64_t BitOf(PageLives::Use use) {
  return use == PageLives::Use::kOfMoment ? kMoment : use == PageLives::Use::kOfEvent ? kEvent : 0;
}

}  // namespace

void PageLives::Add(const PageLife& life, Use use) {
  lives_.push_back(life);
  ranks_.push_back(std::min(life.life.size, kMoment - 1) | BitOf(use));
  if (lives_.size() >= 2 * most_) Prune();
}

// Keeps the `most_` of highest rank, in the order in which they came.
void PageLives::Prune() {
  if (lives_.size() <= most_) return;
  std::vector<uint64_t> sorted = ranks_;
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<ptrdiff_t>(most_ - 1), sorted.end(), std::greater<>());
  const uint64_t lowest = sorted[most_ - 1];
  size_t equal = most_;  // of the lowest rank, that still have room
  for (const uint64_t rank : ranks_) equal -= rank > lowest ? 1 : 0;
  size_t kept = 0;
  for (size_t i = 0; i < lives_.size(); ++i) {
    if (ranks_[i] < lowest || (ranks_[i] == lowest && equal == 0)) continue;
    if (ranks_[i] == lowest) --equal;
    lives_[kept] = lives_[i];
    ranks_[kept++] = ranks_[i];
  }
  left_out_ += lives_.size() - kept;
  has_events_ = has_events_ && lowest < kEvent;
  lives_.resize(kept);
  ranks_.resize(kept);
}

void PageLives::Finish() {
  Prune();
  ranks_.clear();
  std::stable_sort(lives_.begin(), lives_.end(),
                   [](const PageLife& a, const PageLife& b) { return a.life.born < b.life.born; });
}

}  // namespace gpumem
