// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/python/edges.h"

#include <gtest/gtest.h>

#include <vector>

namespace gpumemshim::python {
namespace {

// Nothing is read of an object but its address.
Object* ObjectAt(uintptr_t number) { return reinterpret_cast<Object*>(number * 16); }

std::vector<Object*> HoldersOf(const Edges& edges, uintptr_t number) {
  std::vector<Object*> holders;
  edges.ForEachHolder(ObjectAt(number), [&](Edge edge) {
    EXPECT_EQ(edges.At(edge.object), ObjectAt(number));
    holders.push_back(edges.At(edge.holder));
  });
  return holders;
}

TEST(Edges, FindHoldersInTheOrderInWhichTheyWereAdded) {
  Edges edges;
  ASSERT_TRUE(edges.AddHolder(ObjectAt(9)) && edges.Add(ObjectAt(1)) && edges.Add(ObjectAt(2)) &&
              edges.AddHolder(ObjectAt(3)) && edges.AddHolder(ObjectAt(4)) && edges.Add(ObjectAt(1)) &&
              edges.Add(ObjectAt(1)) && edges.Add(ObjectAt(4)) && edges.Index());
  EXPECT_EQ(HoldersOf(edges, 1), (std::vector<Object*>{ObjectAt(9), ObjectAt(4), ObjectAt(4)}));
  EXPECT_EQ(HoldersOf(edges, 2), std::vector<Object*>{ObjectAt(9)});
  EXPECT_EQ(HoldersOf(edges, 4), std::vector<Object*>{ObjectAt(4)}) << "itself";
  EXPECT_TRUE(HoldersOf(edges, 9).empty() && HoldersOf(edges, 77).empty());
}

TEST(Edges, AreWholeInManyBlocks) {
  Edges edges;
  constexpr uintptr_t kHolders = 50'000;
  for (uintptr_t i = 1; i <= kHolders; ++i) {
    ASSERT_TRUE(edges.AddHolder(ObjectAt(i)));
    for (uintptr_t next = 1; next <= 3; ++next) ASSERT_TRUE(edges.Add(ObjectAt(i + next)));
  }
  ASSERT_TRUE(edges.Index());
  for (uintptr_t i = 4; i <= kHolders; ++i)
    ASSERT_EQ(HoldersOf(edges, i), (std::vector<Object*>{ObjectAt(i - 3), ObjectAt(i - 2), ObjectAt(i - 1)}));
}

TEST(Edges, OfNobody) {
  Edges edges;
  ASSERT_TRUE(edges.Index());
  EXPECT_TRUE(HoldersOf(edges, 1).empty());
}

}  // namespace
}  // namespace gpumemshim::python
