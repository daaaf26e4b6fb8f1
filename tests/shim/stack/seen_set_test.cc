// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/stack/seen_set.h"

#include <gtest/gtest.h>

#include "shim/stack/hash.h"

namespace gpumemshim::stack {
namespace {

TEST(SeenSet, RemembersWhatCameLast) {
  SeenSet<64> set{};
  EXPECT_FALSE(set.Contains(3));
  for (uint64_t i = 1; i <= 70; ++i) set.Insert(i * kHashSeed);
  for (uint64_t i = 7; i <= 70; ++i) EXPECT_TRUE(set.Contains(i * kHashSeed)) << i;
  for (uint64_t i = 1; i <= 6; ++i) EXPECT_FALSE(set.Contains(i * kHashSeed)) << "the first one in goes first";
  set.Clear();
  EXPECT_FALSE(set.Contains(70 * kHashSeed));
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
