// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/attribution/user_stages.h"

namespace gpumem {

uint32_t UserStages::Of(uint64_t time_ns, uint32_t thread) {
  if (!marks_->has_stages()) return 0;
  const ThreadInfo* const info = stacks_->thread(thread);
  const uint64_t open = marks_->StageAt(time_ns, info == nullptr ? thread : info->tid);
  if (open == 0) return 0;
  const auto known = numbers_.find(open);
  if (known != numbers_.end()) return known->second;
  if (names_.size() <= kMax) {
    names_.push_back(marks_->StageText(open));
    return numbers_[open] = static_cast<uint32_t>(names_.size() - 1);
  }
  if (others_ == 0) {
    others_ = static_cast<uint32_t>(names_.size());
    names_.emplace_back("(other stages)");
  }
  return others_;
}

}  // namespace gpumem
