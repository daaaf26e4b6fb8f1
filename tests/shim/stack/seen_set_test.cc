// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/stack/seen_set.h"

#include <gtest/gtest.h>

namespace gpumemshim::stack {
namespace {

TEST(SeenSet, RemembersEightOfASetUntilPushedOut) {
  SeenSet<64> set{};
  EXPECT_FALSE(set.Contains(3));
  for (uint64_t i = 0; i < 8; ++i) set.Insert(3 + i * set.kSets);
  for (uint64_t i = 0; i < 8; ++i) EXPECT_TRUE(set.Contains(3 + i * set.kSets)) << i;
  EXPECT_FALSE(set.Contains(3 + 8 * set.kSets));
  set.Insert(4);  // another set
  EXPECT_TRUE(set.Contains(3));
  set.Insert(3 + 8 * set.kSets);
  EXPECT_FALSE(set.Contains(3)) << "the first one in goes first";
  for (uint64_t i = 1; i <= 8; ++i) EXPECT_TRUE(set.Contains(3 + i * set.kSets)) << i;
  set.Clear();
  EXPECT_FALSE(set.Contains(4));
  EXPECT_FALSE(set.Contains(3 + 8 * set.kSets));
}

// What a training step's stacks are to a thread's set: all of them are found again at the next step.
TEST(SeenSet, AThirdOfItIsRememberedWhole) {
  static SeenSet<16384> set{};
  uint64_t hash = 1, lost = 0;
  const auto next = [&hash] { return hash = hash * 6364136223846793005u + 1442695040888963407u, hash >> 13; };
  for (int i = 0; i < 5000; ++i) set.Insert(next());
  hash = 1;
  for (int i = 0; i < 5000; ++i) lost += set.Contains(next()) ? 0u : 1u;
  EXPECT_LT(lost, 25u);
}

}  // namespace
}  // namespace gpumemshim::stack
