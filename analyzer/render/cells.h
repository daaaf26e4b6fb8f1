// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Cells that several tables of text reports have. Pure functions.

#ifndef GPUMEM_ANALYZER_RENDER_CELLS_H_
#define GPUMEM_ANALYZER_RENDER_CELLS_H_

#include <cstdint>
#include <string>

#include "base/format.h"

namespace gpumem {

// "54 %"; nothing where there is nothing to have a share of, "?" where the whole is less than its part: it is not
// known.
inline std::string ShareCell(uint64_t part, uint64_t all) {
  if (all != 0 && part > all) return "?";
  return all == 0 ? "" : FormatPercent(static_cast<double>(part) / static_cast<double>(all));
}

inline std::string BytesOrDash(uint64_t bytes) { return bytes == 0 ? "-" : FormatBytes(bytes); }

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_RENDER_CELLS_H_
