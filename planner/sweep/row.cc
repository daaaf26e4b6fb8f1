// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/sweep/row.h"

namespace gpumem::plan {

const char* RowStateName(RowState state) {
  switch (state) {
    case RowState::kFits:
      return "fits";
    case RowState::kOutOfMemory:
      return "out_of_memory";
    case RowState::kFailed:
      return "failed";
    case RowState::kTimedOut:
      return "timed_out";
    case RowState::kSpins:
      return "spins";
    case RowState::kNoCuda:
      return "no_cuda";
  }
  return "";
}

}  // namespace gpumem::plan
