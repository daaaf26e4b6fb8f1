// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/stacks/selection.h"

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
    case ViewMode::kAverage:
      return "average";
  }
  return "unknown";
}

absl::string_view ViewMeasureName(ViewMeasure measure) {
  switch (measure) {
    case ViewMeasure::kDefault:
      return "default";
    case ViewMeasure::kAllocated:
      return "allocated";
    case ViewMeasure::kReserved:
      return "reserved";
    case ViewMeasure::kTotal:
      return "total";
    case ViewMeasure::kHeld:
      return "held";
    case ViewMeasure::kPinned:
      return "pinned";
    case ViewMeasure::kManaged:
      return "managed";
    case ViewMeasure::kImported:
      return "imported";
  }
  return "unknown";
}

absl::string_view ViewMeasureText(ViewMeasure measure) {
  switch (measure) {
    case ViewMeasure::kAllocated:
      return "PyTorch's blocks";
    case ViewMeasure::kReserved:
      return "PyTorch's segments";
    case ViewMeasure::kTotal:
      return "CUDA memory";
    case ViewMeasure::kPinned:
      return "pinned host memory";
    case ViewMeasure::kManaged:
      return "managed memory";
    case ViewMeasure::kImported:
      return "memory of other owners";
    case ViewMeasure::kDefault:
    case ViewMeasure::kHeld:
      break;
  }
  return "PyTorch's blocks and other CUDA memory";
}

}  // namespace gpumem
