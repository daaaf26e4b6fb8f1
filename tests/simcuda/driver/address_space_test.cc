// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The orders here are those of histories that real GPUs recorded; simcuda/README.md names them.
#include "simcuda/device/address_space.h"

#include <gtest/gtest.h>

#include <iterator>
#include <map>

#include "simcuda/device/granularity.h"

namespace simcuda {
namespace {

constexpr uint64_t kEnd = uint64_t{1} << 40;
constexpr uint64_t kContextTail = 20 * kMiB;  // free in the context's own region

class LinuxAddressesTest : public testing::Test {
 protected:
  // In MiB below the end of the region of the context.
  int64_t Take(uint64_t mib) { return static_cast<int64_t>((kEnd - addresses.Take(mib * kMiB).value_or(kEnd)) / kMiB); }
  void Give(int64_t below, uint64_t mib) { addresses.Give(kEnd - static_cast<uint64_t>(below) * kMiB, mib * kMiB); }

  DriverAddresses addresses{AddressOrder::kLinux, 0, kEnd, 0};
};

TEST_F(LinuxAddressesTest, RegionsOfWhole32MiBFollowDownwards) {
  EXPECT_EQ(Take(900), 32 + 928);
  EXPECT_EQ(Take(900), 32 + 2 * 928);
  EXPECT_EQ(Take(1800), 32 + 2 * 928 + 1824);
  EXPECT_EQ(Take(3600), 32 + 2 * 928 + 1824 + 3616);
}

// Of a model that was moved to the device: embedding 98 MiB, a buffer, then 26 MiB four times and 100 MiB thrice.
TEST_F(LinuxAddressesTest, WhatIsLeftOfARegionIsTakenLowestFirst) {
  EXPECT_EQ(Take(98), 160);
  EXPECT_EQ(Take(2), 160 - 98);
  EXPECT_EQ(Take(26), 160 - 100);
  EXPECT_EQ(Take(26), 192);
  EXPECT_EQ(Take(100), 320);
  EXPECT_EQ(Take(100), 448);
  EXPECT_EQ(Take(26), 448 - 100);  // the lower of two places
  EXPECT_EQ(Take(26), 320 - 100);
  EXPECT_EQ(Take(26), 480);
}

TEST_F(LinuxAddressesTest, APlaceNeverSpansTwoRegions) {
  EXPECT_EQ(Take(40), 96);
  EXPECT_EQ(Take(40), 160);
  EXPECT_EQ(Take(48), 224) << "24 MiB are free at the end of each of the two regions above";
}

TEST_F(LinuxAddressesTest, TheContextsOwnRegionHasRoomForSmallOnes) {
  EXPECT_EQ(Take(2), static_cast<int64_t>(kContextTail / kMiB));
  EXPECT_EQ(Take(20), 64) << "18 MiB are left";
  EXPECT_EQ(Take(2), 64 - 20) << "lower than the context's";
}

TEST_F(LinuxAddressesTest, AnEmptyRegionIsAGapAndTheHighestIsFilledFromItsTop) {
  const int64_t first = Take(2486), second = Take(1244), third = Take(1272);
  const int64_t last = Take(5000);
  Give(second, 1244);
  Give(first, 2486);
  Give(third, 1272);
  EXPECT_EQ(Take(4970), 32 + 4992) << "gaps that touch are one";
  EXPECT_GT(Take(4970), last);
}

TEST_F(LinuxAddressesTest, ARegionIsGivenBackInPartsAndAcrossRegions) {
  const int64_t first = Take(64), second = Take(64);
  EXPECT_EQ(second - first, 64);
  addresses.Give(kEnd - static_cast<uint64_t>(second) * kMiB, 96 * kMiB);
  EXPECT_EQ(Take(64), second) << "the lower region is a gap, of the upper one 32 MiB are free";
  EXPECT_EQ(Take(20), first);
}

TEST_F(LinuxAddressesTest, NothingWhereNoAddressIsLeft) {
  EXPECT_EQ(addresses.Take(kEnd), std::nullopt);
  EXPECT_EQ(Take(2), static_cast<int64_t>(kContextTail / kMiB));
}

TEST_F(LinuxAddressesTest, AReplayPlacesWhatWasThere) {
  const uint64_t at = kEnd - 1024 * kMiB;
  addresses.PlaceNext(at + 4 * kMiB);
  EXPECT_EQ(addresses.Take(20 * kMiB), at + 4 * kMiB);
  addresses.PlaceNext(at + 64 * kMiB);
  EXPECT_EQ(addresses.Take(40 * kMiB), at + 64 * kMiB);
  EXPECT_EQ(addresses.Take(4 * kMiB), at) << "free in its region";
  EXPECT_EQ(addresses.Take(30 * kMiB), at - 32 * kMiB) << "gaps above are somebody else's";
  addresses.PlaceNext(at + 64 * kMiB);
  EXPECT_EQ(addresses.Take(2 * kMiB), at - 2 * kMiB) << "taken: as if nothing had been said";
  addresses.PlaceNext(kEnd - kMiB);
  EXPECT_EQ(addresses.Take(2 * kMiB), at + 24 * kMiB) << "no granule";
}

// Everything that is taken is free before and after, whatever the order.
TEST_F(LinuxAddressesTest, NoTwoAllocationsOverlap) {
  std::map<uint64_t, uint64_t> live;
  uint64_t random = 12345;
  for (int i = 0; i < 4000; ++i) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    const uint64_t pick = random >> 33;
    if (pick % 3 == 0 && !live.empty()) {
      const auto victim = std::next(live.begin(), static_cast<long>(pick % live.size()));
      addresses.Give(victim->first, victim->second);
      live.erase(victim);
      continue;
    }
    const uint64_t size = (1 + pick % 90) * kGranule;
    const auto address = addresses.Take(size);
    ASSERT_TRUE(address);
    const auto next = live.lower_bound(*address);
    if (next != live.end()) {
      ASSERT_LE(*address + size, next->first);
    }
    if (next != live.begin()) {
      ASSERT_LE(std::prev(next)->first + std::prev(next)->second, *address);
    }
    live[*address] = size;
  }
  for (const auto& [address, size] : live) addresses.Give(address, size);
  EXPECT_EQ(Take(900), 32 + 928) << "as new";
}

TEST(Wsl2AddressesTest, TheLowestPlaceAfterTheContextsPart) {
  DriverAddresses addresses{AddressOrder::kWsl2, 0, kEnd, 80 * kMiB};
  EXPECT_EQ(addresses.Take(20 * kMiB), 80 * kMiB);
  EXPECT_EQ(addresses.Take(2 * kMiB), 100 * kMiB);
  addresses.OnKernel();
  EXPECT_EQ(addresses.Take(2 * kMiB), 0u);
  EXPECT_EQ(addresses.Take(60 * kMiB), 2 * kMiB);
  EXPECT_EQ(addresses.Take(20 * kMiB), 102 * kMiB);
  EXPECT_EQ(addresses.Take(18 * kMiB), 62 * kMiB);
  addresses.Give(2 * kMiB, 60 * kMiB);
  addresses.OnKernel();
  EXPECT_EQ(addresses.Take(2 * kMiB), 2 * kMiB) << "given once";
}

TEST(Wsl2AddressesTest, AReplayPlacesWhatWasThere) {
  DriverAddresses addresses{AddressOrder::kWsl2, 0, kEnd, 0};
  addresses.PlaceNext(64 * kMiB);
  EXPECT_EQ(addresses.Take(20 * kMiB), 64 * kMiB);
  addresses.PlaceNext(128 * kMiB);
  EXPECT_EQ(addresses.Take(20 * kMiB), 128 * kMiB);
  EXPECT_EQ(addresses.Take(2 * kMiB), 148 * kMiB) << "gaps below are somebody else's";
}

}  // namespace
}  // namespace simcuda
