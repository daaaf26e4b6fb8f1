// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// How large single allocations are: by powers of two, and the sizes with most bytes. From stacks that were aggregated
// by size (StackSelection::by_size). Pure function.

#ifndef GPUMEM_ANALYZER_ANSWERS_VIEWS_SIZE_HISTOGRAM_H_
#define GPUMEM_ANALYZER_ANSWERS_VIEWS_SIZE_HISTOGRAM_H_

#include <cstdint>
#include <vector>

#include "ledger/stacks/aggregated_stacks.h"

namespace gpumem {

struct SizeBucket {
  uint64_t from = 0, to = 0;  // sizes from <= size < to; `to` is UINT64_MAX in the last possible one
  Weight weight;
};

struct SizeWeight {
  uint64_t size = 0;
  Weight weight;
};

struct SizeHistogram {
  std::vector<SizeBucket> buckets;  // from the smallest to the largest that is not empty, empty ones between included
  std::vector<SizeWeight> sizes;    // every distinct size, most bytes first
  uint64_t smallest = 0, median = 0, largest = 0;  // of the allocations; 0 where there is none
};

SizeHistogram HistogramOf(const AggregatedStacks& aggregated);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_VIEWS_SIZE_HISTOGRAM_H_
