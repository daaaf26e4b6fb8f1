// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Something that is made anew in each iteration, larger each time: `seen = torch.cat([seen, new])`. No block of it
// lives long, so it is known by its size at the end of each iteration: always as many blocks, never smaller, and along
// a straight line. Pure. Batches that get larger by one each look the same, so more has to be known (leak_rows.cc).
//
//   if (GrowsByReplacement(bytes, blocks)) ...   // one value an iteration

#ifndef GPUMEM_ANALYZER_LEDGER_LEAKS_REPLACEMENT_H_
#define GPUMEM_ANALYZER_LEDGER_LEAKS_REPLACEMENT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gpumem {

// Fewer iterations say nothing.
inline constexpr size_t kLeastReplacements = 16;

bool GrowsByReplacement(const std::vector<int64_t>& bytes, const std::vector<int64_t>& blocks);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_LEAKS_REPLACEMENT_H_
