// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/hooks/array_size.h"

#include <gtest/gtest.h>

namespace gpumemshim::hooks {
namespace {

TEST(ArraySize, DimensionOfZeroCountsAsOne) {
  EXPECT_EQ(ArrayBytes({64, 64, 0, 4}), 16384u);
  EXPECT_EQ(ArrayBytes({64, 0, 0, 16}), 1024u);
  EXPECT_EQ(ArrayBytes({8, 8, 8, 1}), 512u);
}

TEST(ArraySize, MipmapHalvesEachLevel) {
  EXPECT_EQ(MipmapBytes({64, 64, 0, 4}, 1), 16384u);
  EXPECT_EQ(MipmapBytes({64, 64, 0, 4}, 3), 16384u + 4096 + 1024);
  EXPECT_EQ(MipmapBytes({2, 1, 0, 1}, 3), 2u + 1 + 1);
}

TEST(ArraySize, Elements) {
  EXPECT_EQ(FormatBytes(CU_AD_FORMAT_HALF), 2u);
  EXPECT_EQ(FormatBytes(CU_AD_FORMAT_FLOAT), 4u);
  EXPECT_EQ(FormatBytes(CU_AD_FORMAT_UNSIGNED_INT8), 1u);
  EXPECT_EQ(ElementBytes({32, 32, 32, 32, cudaChannelFormatKindFloat}), 16u);
}

}  // namespace
}  // namespace gpumemshim::hooks
