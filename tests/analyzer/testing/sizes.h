// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Numbers that many tests write with.

#ifndef GPUMEM_TESTS_ANALYZER_TESTING_SIZES_H_
#define GPUMEM_TESTS_ANALYZER_TESTING_SIZES_H_

#include <cstdint>

namespace gpumem::testing {

inline constexpr uint64_t kKiB = uint64_t{1} << 10, kMiB = uint64_t{1} << 20, kGiB = uint64_t{1} << 30;
// Where the memory of a test's trace begins.
inline constexpr uint64_t kSegment = 0x7f0000000000;

}  // namespace gpumem::testing

#endif  // GPUMEM_TESTS_ANALYZER_TESTING_SIZES_H_
