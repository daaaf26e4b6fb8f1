// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/settings/chosen_ranks.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace gpumemshim::control {
namespace {

std::set<int64_t> Chosen(const char* text, int64_t world_size, const char* job = "job") {
  ChosenRanks chosen;
  EXPECT_TRUE(chosen.Parse(text)) << text;
  std::set<int64_t> ranks;
  for (int64_t rank = 0; rank < world_size; ++rank) {
    if (chosen.Has(rank, world_size, job)) ranks.insert(rank);
  }
  return ranks;
}

TEST(ChosenRanks, NumbersAndSpans) {
  EXPECT_EQ(Chosen("0,7", 10), (std::set<int64_t>{0, 7}));
  EXPECT_EQ(Chosen(" 2-4 , 9 ", 10), (std::set<int64_t>{2, 3, 4, 9}));
  EXPECT_EQ(Chosen("100", 10), std::set<int64_t>());
}

TEST(ChosenRanks, RandomOnesAreAsManyAsAskedForBesideTheNamedOnes) {
  for (const int64_t world_size : {16, 1000, 10'000}) {
    const std::set<int64_t> chosen = Chosen("0,7,rand:8", world_size);
    EXPECT_EQ(chosen.size(), 10u);
    EXPECT_TRUE(chosen.contains(0) && chosen.contains(7));
  }
  EXPECT_EQ(Chosen("rand:8", 4).size(), 4u) << "no more than there are";
  EXPECT_EQ(Chosen("rand:0", 4).size(), 0u);
}

TEST(ChosenRanks, AnotherJobOrSizeHasOthers) {
  EXPECT_EQ(Chosen("rand:8", 1000), Chosen("rand:8", 1000));
  EXPECT_NE(Chosen("rand:8", 1000, "a"), Chosen("rand:8", 1000, "b"));
  // Over many jobs each rank is chosen about as often as each other.
  int first_half = 0;
  for (int job = 0; job < 100; ++job) {
    for (const int64_t rank : Chosen("rand:8", 100, std::to_string(job).c_str())) first_half += rank < 50 ? 1 : 0;
  }
  EXPECT_GT(first_half, 320);
  EXPECT_LT(first_half, 480);
}

TEST(ChosenRanks, WithoutAWorldSizeRandomIsEveryRank) {
  ChosenRanks chosen;
  ASSERT_TRUE(chosen.Parse("rand:1"));
  EXPECT_TRUE(chosen.Has(99, -1, ""));
}

TEST(ChosenRanks, WhatMakesNoSense) {
  for (const char* bad : {"", ",", "0,", "a", "-1", "3-1", "1-", "rand", "rand:", "rand:x", "0 7", "0;7", "1.5",
                          "12345678", "99999999999999999999"}) {
    ChosenRanks chosen;
    EXPECT_FALSE(chosen.Parse(bad)) << bad;
    EXPECT_FALSE(chosen.Has(0, 10, "")) << bad;
  }
}

}  // namespace
}  // namespace gpumemshim::control
