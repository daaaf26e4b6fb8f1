// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "import/snapshot_past.h"

#include <gtest/gtest.h>

#include "testing/sizes.h"

namespace gpumem {
namespace {

using testing::kMiB;

TEST(BlockSizesTest, RoundsToFiveHundredAndTwelve) {
  const BlockSizes sizes(-1, {});
  EXPECT_EQ(sizes.Rounded(0), 512u);
  EXPECT_EQ(sizes.Rounded(1), 512u);
  EXPECT_EQ(sizes.Rounded(513), 1024u);
  EXPECT_EQ(sizes.Rounded(3 * kMiB + 1), 3 * kMiB + 512);
}

TEST(BlockSizesTest, KeepsARestThatIsTooSmall) {
  const BlockSizes sizes(-1, {});
  EXPECT_EQ(sizes.Taken(3 * kMiB, 4 * kMiB, /*splits_small=*/false), 4 * kMiB);
  EXPECT_EQ(sizes.Taken(3 * kMiB, 4 * kMiB + 512, false), 3 * kMiB);
  EXPECT_EQ(sizes.Taken(3 * kMiB, 4 * kMiB, /*splits_small=*/true), 3 * kMiB);
  EXPECT_EQ(sizes.Taken(1000, 1024, true), 1024u);
  EXPECT_EQ(sizes.Taken(1000, 1536, true), 1024u);
}

TEST(BlockSizesTest, NeverSplitsAboveTheLimit) {
  const BlockSizes sizes(static_cast<int64_t>(100 * kMiB), {});
  EXPECT_EQ(sizes.Taken(99 * kMiB, 300 * kMiB, false), 99 * kMiB);
  EXPECT_EQ(sizes.Taken(100 * kMiB, 300 * kMiB, false), 300 * kMiB);
}

// PYTORCH_CUDA_ALLOC_CONF=roundup_power2_divisions:4: 1200 becomes 1280, as PyTorch's documentation has it.
TEST(BlockSizesTest, RoundsBetweenPowersOfTwo) {
  const BlockSizes sizes(-1, std::vector<uint64_t>(16, 4));
  EXPECT_EQ(sizes.Rounded(1200), 1536u);  // at most 512 * divisions: as without
  EXPECT_EQ(sizes.Rounded(5000), 5120u);
  EXPECT_EQ(sizes.Rounded(1200 * kMiB), 1280 * kMiB);
  EXPECT_EQ(sizes.Rounded(1024 * kMiB), 1024 * kMiB);
  EXPECT_EQ(sizes.Rounded(1025 * kMiB), 1280 * kMiB);
}

}  // namespace
}  // namespace gpumem
