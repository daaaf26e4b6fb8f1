// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Whether values rise: the one-sided test of Mann (1945) and Kendall (1975), with its correction for ties. Takes the
// square of their number. A pure function.
//
//   RisingConfidence({1, 2, 2, 3, 5})   // 0.98: the probability that values in random order would rise less

#ifndef GPUMEM_ANALYZER_BASE_MANN_KENDALL_H_
#define GPUMEM_ANALYZER_BASE_MANN_KENDALL_H_

#include <vector>

namespace gpumem {

// 0 where they do not rise, or are too few.
double RisingConfidence(const std::vector<double>& values);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_BASE_MANN_KENDALL_H_
