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
    case Weighed::kPinned:
      return "pinned";
    case Weighed::kManaged:
      return "managed";
    case Weighed::kImported:
      return "imported";
  }
  return "unknown";
}

absl::string_view WeighedText(Weighed weighed) {
  switch (weighed) {
    case Weighed::kAllocated:
      return "PyTorch's blocks";
    case Weighed::kReserved:
      return "PyTorch's segments";
    case Weighed::kTotal:
      return "CUDA memory";
    case Weighed::kPinned:
      return "pinned host memory";
    case Weighed::kManaged:
      return "managed memory";
    case Weighed::kImported:
      return "memory of other owners";
    case Weighed::kDefault:
    case Weighed::kHeld:
      break;
  }
  return "PyTorch's blocks and other CUDA memory";
}

}  // namespace gpumem
