// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "simcuda/device/free_ranges.h"

#include <gtest/gtest.h>

#include "simcuda/device/granularity.h"

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

class Granules : public GranuleSource {
 public:
  std::optional<uint64_t> TakeGranules(uint64_t size) override {
    if (taken + size > limit) return std::nullopt;
    taken += size;
    next += size;
    return next - size;
  }
  void GiveGranules(uint64_t, uint64_t size) override { taken -= size; }

  uint64_t limit = 100 * kGranule, taken = 0, next = kGranule;
};

TEST(SubAllocatorTest, SmallPiecesShareAGranule) {
  Granules source;
  SubAllocator allocator(&source);
  const uint64_t a = *allocator.Allocate(1), b = *allocator.Allocate(600), c = *allocator.Allocate(512);
  EXPECT_EQ(b, a + 512);
  EXPECT_EQ(c, b + 1024);
  EXPECT_EQ(source.taken, kGranule);
  EXPECT_EQ(allocator.used_bytes(), 2048u);
}

TEST(SubAllocatorTest, ReleaseKeepsWhatIsUsedAndWhatIsAskedToBeKept) {
  Granules source;
  SubAllocator allocator(&source);
  const uint64_t large = *allocator.Allocate(5 * kGranule), small = *allocator.Allocate(512);
  allocator.Free(large, 5 * kGranule);
  allocator.ReleaseUnused(3 * kGranule);
  EXPECT_EQ(allocator.reserved_bytes(), 3 * kGranule);
  allocator.ReleaseUnused(0);
  EXPECT_EQ(allocator.reserved_bytes(), kGranule);
  allocator.Free(small, 512);
  allocator.ReleaseUnused(0);
  EXPECT_EQ(source.taken, 0u);
}

TEST(SubAllocatorTest, ExhaustedSourceChangesNothing) {
  Granules source;
  source.limit = kGranule;
  SubAllocator allocator(&source);
  EXPECT_EQ(allocator.Allocate(2 * kGranule), std::nullopt);
  EXPECT_EQ(allocator.reserved_bytes(), 0u);
  EXPECT_TRUE(allocator.Allocate(kGranule));
}

}  // namespace
}  // namespace simcuda
