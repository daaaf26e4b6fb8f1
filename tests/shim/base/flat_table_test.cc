// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/base/flat_table.h"

#include <gtest/gtest.h>

#include <random>
#include <unordered_map>

namespace gpumemshim {
namespace {

TEST(FlatTableTest, AgreesWithAStandardMap) {
  std::mt19937_64 random(1);
  FlatTable<uint64_t> table(1 << 20);
  std::unordered_map<uint64_t, uint32_t> model;
  for (uint32_t i = 1; i <= 200'000; i++) {
    uint64_t key = random() % 50'000;  // 0 is a key like any other
    uint32_t* value = table.Insert(key);
    ASSERT_NE(value, nullptr);
    auto [it, fresh] = model.try_emplace(key, i);
    ASSERT_EQ(*value == 0, fresh);
    if (fresh) *value = i;
    ASSERT_EQ(*value, it->second);
    key = random() % 50'000;  // also while the table moves to a larger one
    it = model.find(key);
    ASSERT_EQ(table.Find(key), it == model.end() ? 0 : it->second);
  }
  EXPECT_EQ(table.count(), model.size());
  for (uint64_t key = 0; key < 60'000; key++) {
    auto it = model.find(key);
    ASSERT_EQ(table.Find(key), it == model.end() ? 0 : it->second);
  }
}

TEST(FlatTableTest, IsBounded) {
  FlatTable<uint64_t> table(3);
  for (uint64_t key = 1; key <= 3; key++) *table.Insert(key) = 1;
  EXPECT_EQ(table.Insert(4), nullptr);
  EXPECT_NE(table.Insert(2), nullptr);
  EXPECT_EQ(table.Find(4), 0u);
}

}  // namespace
}  // namespace gpumemshim
