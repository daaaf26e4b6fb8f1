// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "trace/object_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpumem/trace.pb.h"

namespace gpumem {
namespace {

TEST(ObjectTableTest, LaterPartsReplaceWhatTheySay) {
  trace::Definitions first;
  trace::NnModule* module = first.add_nn_modules();
  module->set_id(1);
  module->set_class_name("Linear");
  trace::Tensor* tensor = first.add_tensors();
  tensor->set_id(2);
  tensor->set_role(trace::PARAMETER);
  tensor->set_name("weight");
  tensor->add_shape(3);
  tensor->set_dtype("float32");
  tensor->set_trainable(true);
  trace::Definitions second;
  module = second.add_nn_modules();
  module->set_id(1);
  module->set_root(9);
  module->set_name("head");
  tensor = second.add_tensors();
  tensor->set_id(2);
  tensor->set_optimizer(4);
  tensor->add_shape(5);
  ObjectTable table;
  ASSERT_TRUE(table.Add(first).ok());
  ASSERT_TRUE(table.Add(second).ok());
  EXPECT_EQ(table.module(1)->class_name, "Linear");
  EXPECT_EQ(table.module(1)->root, 9u);
  EXPECT_EQ(table.module(1)->name, "head");
  EXPECT_EQ(table.tensor(2)->name, "weight");
  EXPECT_EQ(table.tensor(2)->optimizer, 4u);
  EXPECT_EQ(table.tensor(2)->shape, (std::vector<uint64_t>{5})) << "a list is replaced as a whole";
  EXPECT_TRUE(table.tensor(2)->trainable) << "this part did not look at it";
  EXPECT_EQ(table.module(3), nullptr);
  EXPECT_EQ(table.optimizer_class(7), "");
}

TEST(ObjectTableTest, RolesOfANewerVersionAreNone) {
  trace::Definitions definitions;
  trace::Tensor* const tensor = definitions.add_tensors();
  tensor->set_id(1);
  tensor->set_role(static_cast<trace::TensorRole>(77));
  ObjectTable table;
  ASSERT_TRUE(table.Add(definitions).ok());
  EXPECT_EQ(table.tensor(1)->role, TensorRole::kNone);
}

TEST(ObjectTableTest, AnIdIsNeeded) {
  trace::Definitions definitions;
  definitions.add_tensors();
  EXPECT_FALSE(ObjectTable().Add(definitions).ok());
}

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
