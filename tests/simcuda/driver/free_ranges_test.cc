// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include "simcuda/device/free_ranges.h"

#include <gtest/gtest.h>

namespace simcuda {
namespace {

TEST(FreeRangesTest, SmallestFittingRangeWins) {
  FreeRanges free;
  free.Give(0x1000, 0x3000);
  free.Give(0x9000, 0x1000);
  EXPECT_EQ(free.Take(0x1000, 0x1000), 0x9000u);
  EXPECT_EQ(free.Take(0x1000, 0x1000), 0x1000u);
  EXPECT_EQ(free.total_bytes(), 0x2000u);
}

TEST(FreeRangesTest, NeighboursMergeOnBothSides) {
  FreeRanges free;
  free.Give(0x1000, 0x1000);
  free.Give(0x3000, 0x1000);
  EXPECT_EQ(free.Give(0x2000, 0x1000), (Range{0x1000, 0x3000}));
  EXPECT_EQ(free.by_address().size(), 1u);
}

TEST(FreeRangesTest, AlignmentSkipsRangesThatOnlySeemToFit) {
  FreeRanges free;
  free.Give(0x1800, 0x1000);
  EXPECT_EQ(free.Take(0x1000, 0x1000), std::nullopt);
  free.Give(0x8000, 0x4000);
  EXPECT_EQ(free.Take(0x1000, 0x4000), 0x8000u);
}

TEST(FreeRangesTest, TakeAtWantsTheWholeRangeFree) {
  FreeRanges free;
  free.Give(0x1000, 0x2000);
  EXPECT_FALSE(free.TakeAt(0x2000, 0x2000));
  EXPECT_TRUE(free.TakeAt(0x2000, 0x1000));
  EXPECT_FALSE(free.TakeAt(0x2000, 0x1000));
  EXPECT_EQ(free.total_bytes(), 0x1000u);
}

}  // namespace
}  // namespace simcuda
