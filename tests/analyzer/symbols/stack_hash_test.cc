// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "symbols/stack_hash.h"

#include <gtest/gtest.h>

#include "gpumem/trace.pb.h"

namespace gpumem {
namespace {

// A process in which libx.so lies at `base`, its ids beginning at `first`: a native frame inside a Python frame.
StackTable Process(uint64_t base, uint32_t first, const std::string& build_id = "id", uint64_t offset = 0x100) {
  trace::Definitions definitions;
  trace::Module* const module = definitions.add_modules();
  module->set_id(first);
  module->set_path("/lib/libx.so");
  module->set_build_id(build_id);
  module->set_load_bias(base);
  module->set_start(base);
  module->set_end(base + 0x1000);
  trace::PythonCode* const code = definitions.add_python_codes();
  code->set_id(first);
  code->set_filename("train.py");
  code->set_name("main");
  code->set_first_line(7);
  code->set_python_minor(11);
  trace::Frame* const native = definitions.add_frames();
  native->set_id(first);
  native->set_pc(base + offset);
  native->set_module(first);
  trace::Frame* const python = definitions.add_frames();
  python->set_id(first + 1);
  python->set_python_code(first);
  trace::StackNodes* const nodes = definitions.add_stacks();
  nodes->set_first_id(1);
  nodes->add_parent(0);
  nodes->add_frame(first + 1);
  nodes->add_parent(1);
  nodes->add_frame(first);
  StackTable table;
  EXPECT_TRUE(table.Add(definitions.SerializeAsString()).ok());
  return table;
}

TEST(StackHash, IsTheSameInAnotherProcess) {
  const uint64_t hash = StackHash(Process(0x10000, 1), 2);
  EXPECT_NE(hash, 0u);
  EXPECT_EQ(StackHash(Process(0x70000, 5), 2), hash);
  EXPECT_EQ(StackHash(Process(0x10000, 1), 2), 0x6be72289e51856dfu) << "it is part of the answers, so it never changes";
}

TEST(StackHash, TellsOtherStacksApart) {
  const uint64_t hash = StackHash(Process(0x10000, 1), 2);
  EXPECT_NE(StackHash(Process(0x10000, 1), 1), hash) << "the outer frame alone";
  EXPECT_NE(StackHash(Process(0x10000, 1, "other"), 2), hash);
  EXPECT_NE(StackHash(Process(0x10000, 1, "id", 0x104), 2), hash);
  EXPECT_EQ(StackHash(Process(0x10000, 1), 99), 0u);
}

TEST(StackHash, TellsNodesOfBackwardPassesApart) {
  StackTable table = Process(0x10000, 1);
  trace::Definitions definitions;
  uint64_t hashes[2];
  for (uint32_t i = 0; i < 2; ++i) {
    trace::InternedString* const name = definitions.add_strings();
    name->set_id(i + 1);
    name->set_value(i == 0 ? "MmBackward0" : "AddBackward0");
    trace::Frame* const mark = definitions.add_frames();
    mark->set_id(10 + i);
    mark->set_forward(true);
    mark->set_node(i + 1);
    trace::StackNodes* const nodes = definitions.add_stacks();
    nodes->set_first_id(3 + i);
    nodes->add_parent(1);
    nodes->add_frame(10 + i);
  }
  ASSERT_TRUE(table.Add(definitions.SerializeAsString()).ok());
  for (uint32_t i = 0; i < 2; ++i) hashes[i] = StackHash(table, 3 + i);
  EXPECT_NE(hashes[0], hashes[1]);
  EXPECT_NE(hashes[0], StackHash(table, 1)) << "the forward pass itself";
}

}  // namespace
}  // namespace gpumem
