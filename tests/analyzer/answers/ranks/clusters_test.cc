// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/ranks/clusters.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>

namespace gpumem {
namespace {

std::vector<std::vector<int>> RanksOf(const std::vector<ValueCluster>& clusters) {
  std::vector<std::vector<int>> result;
  for (const ValueCluster& cluster : clusters) {
    result.emplace_back();
    for (const RankValue& value : cluster.members) result.back().push_back(value.rank);
  }
  return result;
}

TEST(ClustersTest, CutsAtGaps) {
  const auto clusters = FindClusters({{0, 131}, {1, 100}, {2, 101}, {3, 99}}, 2);
  EXPECT_THAT(RanksOf(clusters), ::testing::ElementsAre(std::vector<int>{3, 1, 2}, std::vector<int>{0}));
  EXPECT_TRUE(clusters[0].is_main);
  EXPECT_EQ(clusters[0].median().rank, 1);
}

TEST(ClustersTest, OfTwoEqualSizesTheLowerIsTheMainOne) {
  const auto clusters = FindClusters({{0, 200}, {1, 100}}, 2);
  ASSERT_EQ(clusters.size(), 2u);
  EXPECT_TRUE(clusters[0].is_main);
  EXPECT_FALSE(clusters[1].is_main);
}

TEST(ClustersTest, ALongSlopeIsNoClusterOfEquals) {
  std::vector<RankValue> values;
  for (int rank = 0; rank < 20; ++rank) values.push_back({rank, 100 + static_cast<uint64_t>(rank)});
  const auto clusters = FindClusters(values, 2);
  ASSERT_EQ(clusters.size(), 3u);
  EXPECT_EQ(clusters.front().members.front().rank, 0);
  EXPECT_EQ(clusters.back().members.back().rank, 19);
}

TEST(ClustersTest, NothingIsOneClusterLess) {
  EXPECT_THAT(FindClusters({}, 2), ::testing::IsEmpty());
  EXPECT_EQ(FindClusters({{0, 0}, {1, 0}}, 0).size(), 1u);
}

TEST(ClustersTest, TheOrderOfValuesHasNoInfluence) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<RankValue> values;
    for (int rank = 0; rank < 30; ++rank) values.push_back({rank, 900 + random() % 200});
    const auto expected = RanksOf(FindClusters(values, 4));
    std::shuffle(values.begin(), values.end(), random);
    EXPECT_EQ(RanksOf(FindClusters(values, 4)), expected);
  }
}

}  // namespace
}  // namespace gpumem
