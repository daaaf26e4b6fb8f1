// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "trace/roles.h"

#include <gmock/gmock.h>

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

}  // namespace
}  // namespace gpumem
