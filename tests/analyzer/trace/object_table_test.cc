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

TEST(ObjectTableTest, AnOptimizersGroupsAreThoseOfItsLastSampledStep) {
  trace::Definitions made, first, later;
  trace::Optimizer* optimizer = made.add_optimizers();
  optimizer->set_id(3);
  optimizer->set_class_name("AdamW");
  const auto add = [](trace::Definitions* to, uint64_t step, const std::string& rate) {
    trace::Optimizer* const said = to->add_optimizers();
    said->set_id(3);
    said->set_steps(step);
    for (uint32_t index : {1, 2, 0}) {
      trace::OptimizerGroup* const group = said->add_groups();
      group->set_index(index);
      group->set_learning_rate(rate);
      if (index == 2) group->set_weight_decay("0.1");
    }
  };
  add(&first, 1, "0.001");
  add(&later, 4, "0.0005");
  ObjectTable table;
  for (const trace::Definitions* each : {&made, &first, &later}) ASSERT_TRUE(table.Add(*each).ok());
  const OptimizerInfo& known = table.optimizers().at(3);
  EXPECT_EQ(known.class_name, "AdamW");
  EXPECT_EQ(known.steps, 4u);
  ASSERT_EQ(known.groups.size(), 2u) << "a group without a number is none";
  EXPECT_EQ(known.groups.at(1), (OptimizerGroupInfo{"0.0005", "", "0.001"}));
  EXPECT_EQ(known.groups.at(2), (OptimizerGroupInfo{"0.0005", "0.1", "0.001"}));
}

TEST(ObjectTableTest, AGroupThatAWrapperUsesKeepsWhatWasSaidOfIt) {
  trace::Definitions made, used;
  trace::ProcessGroup* group = made.add_process_groups();
  group->set_id(1);
  group->set_name("0");
  group->set_description("default_pg");
  group->set_rank(3);
  group->set_size(8);
  group = used.add_process_groups();
  group->set_id(1);
  group->set_used_by("DistributedDataParallel");
  ObjectTable table;
  ASSERT_TRUE(table.Add(made).ok());
  EXPECT_TRUE(RolesOf(table.process_groups()).empty());
  ASSERT_TRUE(table.Add(used).ok());
  EXPECT_EQ(RolesText(RolesOf(table.process_groups())), "dp 3/8");
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
  EXPECT_THAT(RolesOf({{1, {"0", "default_pg", 5, 8, ""}},
                       {2, {"1", "mesh_tp", 1, 2, ""}},
                       {3, {"2", "PIPELINE_MODEL_PARALLEL_GROUP", 0, 4, ""}},
                       {4, {"3", "mesh_dim_0", 1, 2, ""}},
                       {5, {"4", "my group", 1, 2, ""}},
                       {6, {"5", "mesh_tp", 0, 2, ""}}}),
              ElementsAre(RankRole{"pp", 0, 4}, RankRole{"tp", 1, 2}));
}

TEST(RolesTest, WrappersThatSayOne) {
  EXPECT_THAT(RolesOf({{1, {"0", "default_pg", 5, 8, "FullyShardedDataParallel"}}, {2, {"1", "mesh_tp", 1, 2, ""}}}),
              ElementsAre(RankRole{"dp_shard", 5, 8}, RankRole{"tp", 1, 2}));
  EXPECT_THAT(RolesOf({{1, {"0", "mesh_tp", 0, 2, "DistributedDataParallel"}}}), ElementsAre(RankRole{"tp", 0, 2}))
      << "its description comes first";
  EXPECT_TRUE(RolesOf({{1, {"0", "default_pg", 5, 8, "Horovod"}}}).empty());
}

TEST(RolesTest, WhatCannotBeIsLeftOut) {
  EXPECT_TRUE(RolesOf({{1, {"0", "tp", 2, 2, ""}}, {2, {"1", "pp", 0, 0, ""}}}).empty());
  EXPECT_EQ(RolesText({}), "");
  EXPECT_EQ(RolesText({{"pp", 1, 4}, {"tp", 0, 2}}), "pp 1/4, tp 0/2");
}

}  // namespace
}  // namespace gpumem
