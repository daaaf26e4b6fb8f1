// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/state/communicators.h"

#include <algorithm>

namespace gpumem {
namespace {

constexpr size_t kMostOpen = 256;

}  // namespace

void OpenCommunicators::Apply(const EventRow& row) {
  const auto number = static_cast<uint32_t>(row.handle);
  const auto is_over = [&](const Open& open) { return open.number == number || open.thread == row.thread; };
  open_.erase(std::remove_if(open_.begin(), open_.end(), is_over), open_.end());
  if (row.size == 0 && number != 0 && open_.size() < kMostOpen) open_.push_back({number, row.thread, row.device});
}

uint32_t OpenCommunicators::Find(uint32_t thread, uint32_t slot) const {
  uint32_t only = 0;
  for (const Open& open : open_) {
    if (open.thread == thread) return open.number;
    if (open.device >= 0 && SlotOfDevice(open.device) != slot) continue;
    if (only != 0) return 0;
    only = open.number;
  }
  return only;
}

}  // namespace gpumem
