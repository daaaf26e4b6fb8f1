// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/leaks/leaks.h"

namespace gpumem {

absl::string_view LeakKindName(LeakKind kind) {
  static constexpr absl::string_view kNames[] = {"memory", "graph",   "outside_pytorch", "allocator",
                                                 "host",   "managed", "driver"};
  return kNames[static_cast<size_t>(kind)];
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
