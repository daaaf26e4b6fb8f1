// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/stack/hash.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace gpumemshim::stack {
namespace {

uint64_t HashOf(const std::vector<uint64_t>& values) {
  uint64_t hash = kHashSeed;
  for (uint64_t value : values) hash = Append(hash, value);
  return Finish(hash);
}

TEST(Hash, OrderLengthAndZerosCount) {
  EXPECT_NE(HashOf({1, 2}), HashOf({2, 1}));
  EXPECT_NE(HashOf({}), HashOf({0}));
  EXPECT_NE(HashOf({0}), HashOf({0, 0}));
  EXPECT_NE(HashOf({}), 0u);
}

// Stacks that differ in one return address by a few bytes are the common case, and their hashes index small tables.
TEST(Hash, NearbyStacksSpread) {
  std::set<uint64_t> hashes;
  std::set<uint64_t> slots;
  for (uint64_t outer = 0; outer < 64; ++outer) {
    for (uint64_t inner = 0; inner < 64; ++inner) {
      const uint64_t hash = HashOf({0x7f0000001000 + inner * 4, 0x7f0000002000, 0x7f0000003000 + outer * 4});
      hashes.insert(hash);
      slots.insert(hash % 8192);
    }
  }
  EXPECT_EQ(hashes.size(), 4096u);
  EXPECT_GT(slots.size(), 2900u);  // 4096 balls in 8192 bins fill about 3223
}

TEST(Hash, MixSeparatesContentAtOneAddress) {
  EXPECT_NE(Mix(0x1000, 1), Mix(0x1000, 2));
  EXPECT_NE(Mix(0x1000, 0), Mix(0x2000, 0));
}

}  // namespace
}  // namespace gpumemshim::stack
