// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/report/idle_graphs.h"

#include <gtest/gtest.h>

namespace gpumem {
namespace {

constexpr uint64_t kRound = 100;

// Of each round five blocks, born at its beginning, which end `after` events behind the beginning of the next one.
std::vector<LifeSpan> Rounds(uint64_t rounds, uint64_t after, uint64_t blocks = 5) {
  std::vector<LifeSpan> saved;
  for (uint64_t round = 0; round < rounds; ++round) {
    for (uint64_t i = 0; i < blocks; ++i)
      saved.push_back({round * kRound + i, (round + 1) * kRound + after + i, 1000, 7});
  }
  return saved;
}

TEST(IdleGraphs, AGraphThatIsThereWhileTheNextOneIsMade) {
  const std::vector<LifeSpan> too_long = IdleGraphs(Rounds(6, 50), {}, {});
  ASSERT_EQ(too_long.size(), 25u) << "the last one is followed by none";
  EXPECT_EQ(too_long[0].born, kRound) << "where the next one begins";
  EXPECT_EQ(too_long[0].end, kRound + 50);
  EXPECT_EQ(too_long[0].stack, 7u);
}

// An input of which nobody saw that it was saved goes with the graph; what is made later does not.
TEST(IdleGraphs, WhatEndsBesideItGoesWithIt) {
  const std::vector<LifeSpan> inputs = {
      {5, kRound + 49, 30, 8}, {6, kRound + 55, 10, 8}, {7, kRound + 57, 99, 8}, {kRound + 7, kRound + 56, 99, 8}};
  const std::vector<LifeSpan> too_long = IdleGraphs(Rounds(6, 50), inputs, {});
  uint64_t bytes = 0;
  for (const LifeSpan& block : too_long) bytes += block.stack == 8 ? block.size : 0;
  EXPECT_EQ(bytes, 139u) << "the last one is made after the next one begins";
}

TEST(IdleGraphs, OneThatGoesBeforeTheNextIsNone) {
  std::vector<LifeSpan> saved = Rounds(6, 50);
  for (LifeSpan& block : saved) block.end -= kRound;
  EXPECT_TRUE(IdleGraphs(saved, {}, {}).empty());
}

TEST(IdleGraphs, OneThroughWhichABackwardPassRunsIsNeeded) {
  std::vector<uint64_t> backward;
  for (uint64_t round = 1; round < 7; ++round) backward.push_back(round * kRound + 40);
  EXPECT_TRUE(IdleGraphs(Rounds(6, 50), {}, backward).empty());
  EXPECT_FALSE(IdleGraphs(Rounds(6, 50), {}, {100000}).empty());
}

TEST(IdleGraphs, TwoMayBeChance) { EXPECT_TRUE(IdleGraphs(Rounds(3, 50), {}, {}).empty()); }

// A state that the next call takes over: two tensors that are saved, and nothing else stays.
TEST(IdleGraphs, AStateIsNoGraph) { EXPECT_TRUE(IdleGraphs(Rounds(20, 50, 2), {}, {}).empty()); }

// Memories of all layers stay for the next call; what else was saved goes with its own.
TEST(IdleGraphs, PartOfAGraphIsNone) {
  std::vector<LifeSpan> saved = Rounds(20, 50);
  for (uint64_t round = 0; round < 20; ++round) {
    for (uint64_t i = 5; i < 10; ++i) saved.push_back({round * kRound + i, round * kRound + 20 + i, 1000, 7});
  }
  EXPECT_TRUE(IdleGraphs(saved, {}, {}).empty());
}

// Pipelines make several before the first one goes.
TEST(IdleGraphs, WhatOutlivesTwoRoundsIsNot) {
  std::vector<LifeSpan> saved = Rounds(20, 50);
  for (LifeSpan& block : saved) block.end += kRound;
  EXPECT_TRUE(IdleGraphs(saved, {}, {}).empty());
}

}  // namespace
}  // namespace gpumem
