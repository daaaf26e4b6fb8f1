// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ranks/roles.h"

#include <gmock/gmock.h>

#include "ranks.h"
#include "ranks/model_parts.h"

namespace gpumem {
namespace {

using ::testing::ElementsAre;

TEST(RolesTest, DescriptionsThatSayOne) {
  EXPECT_THAT(RolesOf({{1, {"0", "default_pg", 5, 8}},
                       {2, {"1", "mesh_tp", 1, 2}},
                       {3, {"2", "PIPELINE_MODEL_PARALLEL_GROUP", 0, 4}},
                       {4, {"3", "mesh_dim_0", 1, 2}},
                       {5, {"4", "my group", 1, 2}},
                       {6, {"5", "mesh_tp", 0, 2}}}),
              ElementsAre(RankRole{"pp", 0, 4}, RankRole{"tp", 1, 2}));
}

TEST(RolesTest, WhatCannotBeIsLeftOut) {
  EXPECT_TRUE(RolesOf({{1, {"0", "tp", 2, 2}}, {2, {"1", "pp", 0, 0}}}).empty());
  EXPECT_EQ(RolesText({}), "");
  EXPECT_EQ(RolesText({{"pp", 1, 4}, {"tp", 0, 2}}), "pp 1/4, tp 0/2");
}

TEST(RolesTest, StagesWithEqualParametersAreParts) {
  std::vector<RankSummary> ranks = testing::MakeRanks(4, 100);
  for (RankSummary& rank : ranks) {
    testing::HoldParameters({1, 2}, 3, &rank);
    rank.roles = {{"pp", static_cast<uint32_t>(rank.rank / 2), 2}, {"tp", static_cast<uint32_t>(rank.rank % 2), 2}};
  }
  EXPECT_THAT(PartsOfModel(ranks), ElementsAre(0, 0, 1, 1));
  ranks[3].roles.clear();
  EXPECT_THAT(PartsOfModel(ranks), ElementsAre(0, 0, 0, 0)) << "of one it is not known";
}

}  // namespace
}  // namespace gpumem
