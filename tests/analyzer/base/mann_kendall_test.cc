// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "base/mann_kendall.h"

#include <gtest/gtest.h>

namespace gpumem {
namespace {

TEST(RisingConfidence, OfWhatRises) {
  EXPECT_NEAR(RisingConfidence({1, 2, 3, 4, 5}), 0.9863, 1e-4);  // S = 10, variance 50 / 3
  EXPECT_GT(RisingConfidence({1, 2, 2, 3, 5}), 0.97);
}

TEST(RisingConfidence, NoneOfWhatDoesNot) {
  EXPECT_EQ(RisingConfidence({}), 0);
  EXPECT_EQ(RisingConfidence({7}), 0);
  EXPECT_EQ(RisingConfidence({3, 3, 3, 3}), 0);
  EXPECT_EQ(RisingConfidence({5, 4, 3, 2, 1}), 0);
}

}  // namespace
}  // namespace gpumem
