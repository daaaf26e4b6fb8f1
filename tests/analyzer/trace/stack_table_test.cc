// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "trace/stack_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpumem/trace.pb.h"

namespace gpumem {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

trace::Definitions Nodes(uint64_t first, std::initializer_list<std::pair<uint64_t, uint32_t>> nodes) {
  trace::Definitions definitions;
  trace::StackNodes* const out = definitions.add_stacks();
  out->set_first_id(first);
  for (const auto& [parent, frame] : nodes) {
    out->add_parent(parent);
    out->add_frame(frame);
  }
  return definitions;
}

TEST(StackTableTest, WalksFromTheInnermostFrameOutwards) {
  StackTable table;
  ASSERT_TRUE(table.Add(Nodes(1, {{0, 10}, {1, 11}, {2, 12}, {1, 13}}).SerializeAsString()).ok());
  EXPECT_THAT(table.Frames(3), ElementsAre(12, 11, 10));
  EXPECT_THAT(table.Frames(4), ElementsAre(13, 10));
  EXPECT_THAT(table.Frames(0), IsEmpty());
  EXPECT_THAT(table.Frames(99), IsEmpty());
}

TEST(StackTableTest, AFrameBelongsToTheModuleThatItNames) {
  trace::Definitions definitions;
  for (const uint32_t id : {1u, 2u}) {
    trace::Module* const module = definitions.add_modules();
    module->set_id(id);
    module->set_path(id == 1 ? "/lib/first.so" : "/lib/second.so");
    module->set_start(0x1000);
    module->set_end(0x2000);
    module->set_time_ns(id);
  }
  StackTable table;
  ASSERT_TRUE(table.Add(definitions.SerializeAsString()).ok());
  FrameInfo frame;
  frame.pc = 0x1800;
  EXPECT_EQ(table.ModuleOf(frame)->path, "/lib/second.so") << "without a name the one that came last";
  frame.module = 1;
  EXPECT_EQ(table.ModuleOf(frame)->path, "/lib/first.so");
  frame.module = 9;
  EXPECT_EQ(table.ModuleOf(frame)->path, "/lib/second.so") << "a lost definition";
  frame.module = 1;
  frame.pc = 0x5000;
  EXPECT_EQ(table.ModuleOf(frame), nullptr) << "outside of what it names";
}

TEST(StackTableTest, KeepsNodesBehindAGap) {
  StackTable table;
  ASSERT_TRUE(table.Add(Nodes(1, {{0, 10}}).SerializeAsString()).ok());
  ASSERT_TRUE(table.Add(Nodes(1ull << 60, {{1, 11}}).SerializeAsString()).ok());
  EXPECT_THAT(table.Frames(1ull << 60), ElementsAre(11, 10));
  ASSERT_TRUE(table.Add(Nodes(5, {{1, 12}}).SerializeAsString()).ok());
  EXPECT_THAT(table.Frames(5), ElementsAre(12, 10));
}

TEST(StackTableTest, RefusesImpossibleNodes) {
  StackTable table;
  EXPECT_FALSE(table.Add(Nodes(1, {{1, 10}}).SerializeAsString()).ok()) << "its own parent";
  EXPECT_FALSE(table.Add(Nodes(1, {{2, 10}}).SerializeAsString()).ok()) << "a later parent";
  EXPECT_FALSE(table.Add(Nodes(0, {{0, 10}}).SerializeAsString()).ok()) << "no id";
  EXPECT_FALSE(table.Add(Nodes(1, {{0, 0}}).SerializeAsString()).ok()) << "no frame";
}

TEST(StackTableTest, AcceptsRepetitionsThatAreEqual) {
  StackTable table;
  ASSERT_TRUE(table.Add(Nodes(1, {{0, 10}}).SerializeAsString()).ok());
  EXPECT_TRUE(table.Add(Nodes(1, {{0, 10}}).SerializeAsString()).ok());
  EXPECT_FALSE(table.Add(Nodes(1, {{0, 11}}).SerializeAsString()).ok());
}

TEST(StackTableTest, FindsTheModuleLoadedLast) {
  trace::Definitions definitions;
  for (uint32_t id = 1; id <= 2; ++id) {
    trace::Module* const module = definitions.add_modules();
    module->set_id(id);
    module->set_path(id == 1 ? "/old.so" : "/new.so");
    module->set_start(0x1000);
    module->set_end(0x2000);
    module->set_time_ns(id * 100);
  }
  StackTable table;
  ASSERT_TRUE(table.Add(definitions.SerializeAsString()).ok());
  EXPECT_EQ(table.ModuleAt(0x1500, 150)->path, "/old.so");
  EXPECT_EQ(table.ModuleAt(0x1500)->path, "/new.so");
  EXPECT_EQ(table.ModuleAt(0x2000), nullptr);
}

}  // namespace
}  // namespace gpumem
