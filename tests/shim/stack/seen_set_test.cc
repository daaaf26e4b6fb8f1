// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/stack/seen_set.h"

#include <gtest/gtest.h>

namespace gpumemshim::stack {
namespace {

TEST(SeenSet, RemembersUntilPushedOut) {
  SeenSet<8> set{};
  EXPECT_FALSE(set.Contains(3));
  set.Insert(3);
  set.Insert(4);
  EXPECT_TRUE(set.Contains(3));
  EXPECT_TRUE(set.Contains(4));
  set.Insert(11);  // the slot of 3
  EXPECT_FALSE(set.Contains(3));
  EXPECT_TRUE(set.Contains(11));
  set.Clear();
  EXPECT_FALSE(set.Contains(11));
}

}  // namespace
}  // namespace gpumemshim::stack
