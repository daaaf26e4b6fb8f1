// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/state/address_index.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace gpumem {
namespace {

TEST(AddressIndexTest, EqualsAMap) {
  std::mt19937_64 random(3);
  std::map<uint64_t, uint32_t> truth;
  AddressIndex index;
  for (uint32_t i = 0; i < 200000; ++i) {
    const uint64_t address = 512 * (1 + random() % 3000);
    const auto it = truth.find(address);
    ASSERT_EQ(index.Find(address), it == truth.end() ? AddressIndex::kNone : it->second);
    if (it == truth.end()) {
      index.Insert(address, i);
      truth[address] = i;
    } else {
      ASSERT_EQ(index.Remove(address), it->second);
      truth.erase(it);
    }
    ASSERT_EQ(index.size(), truth.size());
  }
  for (const auto& [address, place] : truth) EXPECT_EQ(index.Find(address), place);
}

}  // namespace
}  // namespace gpumem
