// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/explain/peak_without.h"

#include <algorithm>
#include <utility>

#include "answers/report/stack_rows.h"

namespace gpumem {

PeakWithout::PeakWithout(LoadedTrace* loaded, const DeviceAnalysis& device, std::string line)
    : loaded_(loaded),
      classifier_(&loaded->stacks, &rules_, ResolverOf(loaded)),
      slot_(SlotOfDevice(device.device)),
      peak_(device.peak_allocated.bytes),
      line_(std::move(line)) {}

PeakWithout::OfStack PeakWithout::Of(uint64_t stack_id) {
  const auto [found, is_new] = of_stacks_.try_emplace(stack_id);
  if (!is_new) return found->second;
  const StackClassification classification = classifier_.Of(stack_id);
  found->second.is_loss = classification.is_loss || classification.stage == Stage::kLoss;
  if (line_.empty()) return found->second;
  StackUse use;
  use.stack_id = stack_id;
  use.layer = static_cast<uint8_t>(trace::TORCH);
  const std::vector<StackGroup> groups = GroupStacks({use}, loaded_->input, /*by_stack=*/false);
  found->second.is_of_line = !groups.empty() && groups[0].view.site == line_;
  return found->second;
}

void PeakWithout::AddTo(std::vector<int64_t>* changes, const Life& life) const {
  const uint64_t last = std::min(life.end, kMostEvents);
  if (changes->size() <= last) changes->resize(last + 1);
  (*changes)[life.born] += static_cast<int64_t>(life.size);
  (*changes)[last] -= static_cast<int64_t>(life.size);
}

void PeakWithout::Lived(const Life& life, const AttributedUse& use) {
  is_too_long_ = is_too_long_ || life.born >= kMostEvents;
  if (is_too_long_) return;
  AddTo(&all_, life);
  if (use.category == Category::kActivation) AddTo(&of_parts_[kActivations], life);
  const OfStack of = Of(use.stack_id);
  if (of.is_loss) AddTo(&of_parts_[kLoss], life);
  if (of.is_of_line) AddTo(&of_parts_[kLine], life);
}

void PeakWithout::Ended(const LivesFacts&) {
  int64_t held = 0, most = 0;
  for (const int64_t change : all_) most = std::max(most, held += change);
  if (is_too_long_ || static_cast<uint64_t>(most) != peak_) return;
  for (size_t part = 0; part < kParts; ++part) {
    std::vector<int64_t>& removed = of_parts_[part];
    removed.resize(all_.size());
    int64_t left = 0, most_left = 0;
    for (size_t i = 0; i < all_.size(); ++i) most_left = std::max(most_left, left += all_[i] - removed[i]);
    peaks_[part] = static_cast<uint64_t>(most_left);
  }
}

}  // namespace gpumem
