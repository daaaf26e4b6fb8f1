// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// How many rows of a list are shown where at most `top` are asked for; 0 = all.

#ifndef GPUMEM_ANALYZER_BASE_SHOWN_H_
#define GPUMEM_ANALYZER_BASE_SHOWN_H_

#include <algorithm>
#include <cstddef>

namespace gpumem {

inline size_t Shown(size_t all, size_t top) { return top == 0 ? all : std::min(all, top); }

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_BASE_SHOWN_H_
