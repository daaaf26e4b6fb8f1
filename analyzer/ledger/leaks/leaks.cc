// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/leaks/leaks.h"

#include <algorithm>
#include <utility>

namespace gpumem {

absl::string_view LeakKindName(LeakKind kind) {
  static constexpr absl::string_view kNames[] = {"memory", "graph",   "outside_pytorch", "allocator",
                                                 "host",   "managed", "driver"};
  return kNames[static_cast<size_t>(kind)];
}

void LeakRow::Absorb(LeakRow row, bool takes_place) {
  if (stacks.empty()) {
    *this = std::move(row);
    return;
  }
  if (takes_place) {
    place = std::move(row.place);
    stack = row.stack;
  }
  stacks.insert(stacks.end(), row.stacks.begin(), row.stacks.end());
  grown_bytes += row.grown_bytes;
  grown_blocks += row.grown_blocks;
  bytes_per_iteration += row.bytes_per_iteration;
  growths = std::max(growths, row.growths);
  confidence = std::max(confidence, row.confidence);
  if (row.since_iteration < since_iteration) {
    since_iteration = row.since_iteration;
    since_ns = row.since_ns;
  }
  for (size_t i = 0; i < bytes.size() && i < row.bytes.size(); ++i) bytes[i] += row.bytes[i];
}

bool LeakFindings::AnyGrows() const {
  for (const LeakDevice& device : devices) {
    for (const LeakRow& row : device.rows) {
      if (row.status == LeakStatus::kGrowing) return true;
    }
  }
  return false;
}

}  // namespace gpumem
