// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// How far a long reading of a file is.

#ifndef GPUMEM_ANALYZER_BASE_PROGRESS_H_
#define GPUMEM_ANALYZER_BASE_PROGRESS_H_

#include <cstdint>
#include <functional>

namespace gpumem {

// Called now and then from the reading thread: bytes of the file done, of all.
using ProgressCallback = std::function<void(uint64_t done_bytes, uint64_t all_bytes)>;

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_BASE_PROGRESS_H_
