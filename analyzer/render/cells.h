// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Cells that several tables of text reports have. Pure functions.

#ifndef GPUMEM_ANALYZER_RENDER_CELLS_H_
#define GPUMEM_ANALYZER_RENDER_CELLS_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/format.h"

namespace gpumem {

// "54 %"; nothing where there is nothing to have a share of, "?" where the whole is less than its part: it is not
// known.
inline std::string ShareCell(uint64_t part, uint64_t all) {
  if (all != 0 && part > all) return "?";
  return all == 0 ? "" : FormatPercent(static_cast<double>(part) / static_cast<double>(all));
}

// The head of such a column, which says of what: "of 8.11 GiB"; of counts "of 1,234".
inline std::string ShareTitle(uint64_t all) { return all == 0 ? "share" : absl::StrCat("of ", FormatBytes(all)); }
inline std::string ShareTitleOfCount(uint64_t all) {
  return all == 0 ? "share" : absl::StrCat("of ", FormatCount(all));
}

inline std::string BytesOrDash(uint64_t bytes) { return bytes == 0 ? "-" : FormatBytes(bytes); }

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_RENDER_CELLS_H_
