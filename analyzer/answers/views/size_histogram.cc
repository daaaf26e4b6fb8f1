// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/views/size_histogram.h"

#include <algorithm>
#include <bit>
#include <map>
#include <tuple>

namespace gpumem {
namespace {

// 0 for sizes 0 and 1, else the largest n with 2^n <= size.
unsigned BucketOf(uint64_t size) { return size < 2 ? 0 : static_cast<unsigned>(std::bit_width(size)) - 1; }

SizeBucket MakeBucket(unsigned bucket) {
  return {bucket == 0 ? 0 : uint64_t{1} << bucket, bucket == 63 ? UINT64_MAX : uint64_t{2} << bucket, {}};
}

uint64_t MedianOf(const std::map<uint64_t, Weight>& by_size) {
  uint64_t count = 0, before = 0;
  for (const auto& [size, weight] : by_size) count += weight.count;
  for (const auto& [size, weight] : by_size) {
    before += weight.count;
    if (before >= (count + 1) / 2) return size;
  }
  return 0;
}

}  // namespace

SizeHistogram HistogramOf(const AggregatedStacks& aggregated) {
  std::map<uint64_t, Weight> by_size;
  for (const AggregatedStack& stack : aggregated.stacks) by_size[stack.size].Add(stack.weight);
  SizeHistogram histogram;
  if (by_size.empty()) return histogram;
  histogram.smallest = by_size.begin()->first;
  histogram.largest = by_size.rbegin()->first;
  histogram.median = MedianOf(by_size);
  const unsigned first = BucketOf(histogram.smallest);
  for (unsigned i = first; i <= BucketOf(histogram.largest); ++i) histogram.buckets.push_back(MakeBucket(i));
  for (const auto& [size, weight] : by_size) {
    histogram.buckets[BucketOf(size) - first].weight.Add(weight);
    histogram.sizes.push_back({size, weight});
  }
  std::sort(histogram.sizes.begin(), histogram.sizes.end(), [](const SizeWeight& a, const SizeWeight& b) {
    return std::tie(a.weight.bytes, a.size) > std::tie(b.weight.bytes, b.size);
  });
  return histogram;
}

}  // namespace gpumem
