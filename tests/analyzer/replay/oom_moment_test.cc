// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The figures are those of PyTorch's own allocator with expandable segments: tests/e2e/oom_test.py asks it.

#include "replay/oom_moment.h"

#include <gtest/gtest.h>

#include <vector>

#include "replay/free_space.h"
#include "testing/sizes.h"

namespace gpumem {
namespace {

using testing::kMiB;

ExpandablePool LargePool(uint64_t reservation = 2304 * kMiB) { return ExpandablePool(kLargePage, reservation); }

TEST(FitsTest, ARequestMayNeedALargerSegmentThanItself) {
  EXPECT_EQ(LargestInNewSegment(1285 * kMiB), 1284 * kMiB);
  EXPECT_EQ(LargestInNewSegment(10 * kMiB), 10 * kMiB);
  EXPECT_EQ(LargestInNewSegment(9 * kMiB), kLargestSmallBlock);  // below 10 MiB a segment has 20 MiB
  EXPECT_EQ(LargestInNewSegment(2 * kMiB - 1), 0u);
  EXPECT_EQ(SegmentFor(512), 2 * kMiB);
  EXPECT_EQ(SegmentFor(kMiB + 512), 20 * kMiB);
  EXPECT_EQ(SegmentFor(11 * kMiB), 12 * kMiB);
}

TEST(FitsTest, AHoleIsBounded) {
  EXPECT_EQ(LargestInHole(8, 40, 5, 20), 28u);
  EXPECT_EQ(LargestInHole(8, 40, 5, 60), 53u);
}

TEST(ExpandablePoolTest, EveryOtherBlockGoes) {
  ExpandablePool pool = LargePool();
  std::vector<uint64_t> blocks;
  for (int i = 0; i < 160; ++i) blocks.push_back(pool.Alloc(8 * kMiB));
  for (size_t i = 0; i < blocks.size(); i += 2) pool.Free(blocks[i]);
  EXPECT_EQ(pool.LeastMapped(), 1280 * kMiB);  // a block in each page
  EXPECT_EQ(pool.LargestFit((1984 - 1280) * kMiB), 700 * kMiB);
}

TEST(ExpandablePoolTest, PagesWithoutABlockGoBack) {
  ExpandablePool pool = LargePool();
  std::vector<uint64_t> fillers;
  for (int i = 0; i < 40; ++i) {
    pool.Free(pool.Alloc(30 * kMiB));
    pool.Alloc(2 * kMiB);
    fillers.push_back(pool.Alloc(28 * kMiB));
  }
  for (const uint64_t filler : fillers) pool.Free(filler);
  EXPECT_EQ(pool.LeastMapped(), 800 * kMiB);
  // The rest of the last page would make it 1188 MiB, and the addresses reserved do not suffice.
  EXPECT_EQ(pool.LargestFit(1184 * kMiB), 1180 * kMiB);
  EXPECT_EQ(pool.LargestFit(200 * kMiB), 208 * kMiB);
}

TEST(ExpandablePoolTest, TakesTheSmallestRangeThatHoldsABlock) {
  ExpandablePool pool = LargePool();
  const uint64_t large = pool.Alloc(12 * kMiB), kept = pool.Alloc(2 * kMiB), small = pool.Alloc(6 * kMiB);
  EXPECT_EQ(pool.Alloc(2 * kMiB), 20 * kMiB);
  pool.Free(large);
  pool.Free(small);
  EXPECT_EQ(pool.Alloc(5 * kMiB), small);
  EXPECT_EQ(pool.Alloc(7 * kMiB), large);
  pool.Free(kept);
  pool.Free(kept);                                    // once is enough
  EXPECT_EQ(pool.Alloc(7 * kMiB), large + 7 * kMiB);  // merged with the free range before it
}

TEST(ExpandablePoolTest, OutgrowsItsReservation) {
  ExpandablePool pool = LargePool(100 * kMiB);
  EXPECT_EQ(pool.Alloc(90 * kMiB), 0u);
  EXPECT_EQ(pool.Alloc(30 * kMiB), 120 * kMiB);
  EXPECT_EQ(pool.LeastMapped(), 140 * kMiB);
  EXPECT_EQ(pool.Alloc(500 * kMiB), 240 * kMiB);  // larger than any reservation
}

}  // namespace
}  // namespace gpumem
