// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "views/selection.h"

namespace gpumem {

absl::string_view ViewModeName(ViewMode mode) {
  switch (mode) {
    case ViewMode::kPeak:
      return "peak";
    case ViewMode::kLeaks:
      return "leaks";
    case ViewMode::kTotal:
      return "total";
    case ViewMode::kTemporary:
      return "temporary";
  }
  return "unknown";
}

absl::string_view WeighedName(Weighed weighed) {
  switch (weighed) {
    case Weighed::kDefault:
      return "default";
    case Weighed::kAllocated:
      return "allocated";
    case Weighed::kReserved:
      return "reserved";
    case Weighed::kTotal:
      return "total";
    case Weighed::kHeld:
      return "held";
  }
  return "unknown";
}

}  // namespace gpumem
