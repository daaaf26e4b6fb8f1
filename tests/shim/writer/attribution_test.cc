// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What attribution adds to a trace: backward passes below the forward stacks of their nodes, objects of frames, and
// definitions that come ready.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "shim/writer/definitions.h"
#include "shim/writer/session.h"
#include "writer_fixture.h"

namespace gpumemshim::writer {
namespace {

namespace pb = gpumem::trace;

constexpr uint32_t kNode = 3;

bool SendStack(uint64_t hash, const std::vector<ring::RawFrame>& frames) {
  return ring::RecordStack(hash, frames.data(), static_cast<uint32_t>(frames.size()));
}

bool SendAlloc(uint64_t address, uint64_t stack) {
  Event event{};
  event.kind = EventKind::kAlloc;
  event.address = address;
  event.stack = stack;
  return ring::Record(event);
}

class Attribution : public WriterTest {
 protected:
  // pcs of a stack, innermost first; a mark as 0.
  static std::vector<uint64_t> Pcs(const Decoded& d, uint64_t key) {
    std::vector<uint64_t> pcs;
    for (const pb::Frame& frame : d.Frames(d.stack_of_key.at(key))) pcs.push_back(frame.pc());
    return pcs;
  }
};

TEST_F(Attribution, BackwardGoesOnInTheForwardStackOfAnotherThread) {
  StartBoth();
  ASSERT_TRUE(SendAlloc(1, 0));  // this thread is the first, so its stacks are read first
  ASSERT_TRUE(ring::RecordText(ring::NodeTextKey(kNode), "MmBackward0", 11));
  std::thread([] { EXPECT_TRUE(SendStack(100, {{0x10, 0, 0}, {0x20, 0, 0}})); }).join();
  ASSERT_TRUE(SendStack(200, {{0x30, 0, 0}, {100, kNode, ring::kFrameForward}}));
  ASSERT_TRUE(SendStack(201, {{0x31, 0, 0}, {100, kNode, ring::kFrameForward}}));
  ASSERT_TRUE(SendStack(202, {{0x32, 0, 0}, {0, kNode, ring::kFrameForward}}));
  ASSERT_TRUE(SendStack(203, {{0x33, 0, 0}, {999, kNode, ring::kFrameForward}}));
  ASSERT_TRUE(SendAlloc(2, 200));
  Stop(5000);
  const Decoded d = DecodeFile(path());
  ASSERT_EQ(d.error, "");
  EXPECT_THAT(Pcs(d, 200), ::testing::ElementsAre(0x30, 0, 0x10, 0x20));
  EXPECT_THAT(Pcs(d, 201), ::testing::ElementsAre(0x31, 0, 0x10, 0x20));
  EXPECT_THAT(Pcs(d, 202), ::testing::ElementsAre(0x32, 0)) << "no place known";
  EXPECT_THAT(Pcs(d, 203), ::testing::ElementsAre(0x33, 0)) << "its definition was lost";
  const pb::Frame mark = d.Frames(d.stack_of_key.at(200))[1];
  EXPECT_TRUE(mark.forward());
  EXPECT_EQ(d.strings.at(mark.node()), "MmBackward0");
  EXPECT_EQ(d.rows.back().stack, d.stack_of_key.at(200));
}

ring::StackView ViewOf(uint64_t hash, const std::vector<ring::RawFrame>& frames) {
  return {hash, frames.data(), static_cast<uint32_t>(frames.size())};
}

TEST(WaitingForForward, OnePassAndTheNext) {
  const std::vector<ring::RawFrame> forward{{0x10, 0, 0}};
  const std::vector<ring::RawFrame> backward{{0x30, 0, 0}, {100, kNode, ring::kFrameForward}};
  Definitions definitions{Callbacks{}};
  definitions.AddStack(ViewOf(200, backward));
  definitions.AddWaiting(false);
  EXPECT_TRUE(definitions.waits());
  EXPECT_EQ(definitions.StackId(200), 0u);
  definitions.AddStack(ViewOf(100, forward));
  definitions.AddWaiting(false);
  EXPECT_FALSE(definitions.waits());
  EXPECT_EQ(definitions.StackId(200), definitions.StackId(100) + 2) << "its two nodes stand on the forward stack's";
}

TEST(WaitingForForward, NoLongerThanThat) {
  const std::vector<ring::RawFrame> backward{{0x30, 0, 0}, {100, kNode, ring::kFrameForward}};
  Definitions definitions{Callbacks{}};
  definitions.AddStack(ViewOf(200, backward));
  definitions.AddWaiting(false);
  definitions.AddStack(ViewOf(201, backward));
  definitions.AddWaiting(false);
  EXPECT_NE(definitions.StackId(200), 0u) << "the forward stack was lost";
  EXPECT_TRUE(definitions.waits());
  definitions.AddWaiting(true);
  EXPECT_FALSE(definitions.waits());
  EXPECT_NE(definitions.StackId(201), 0u);
}

// There may be one in each pass.
TEST_F(Attribution, AStackThatWaitsDoesNotKeepAShortRingFull) {
  ring::Config ring_config;
  ring_config.size_bytes = ring::kMinSizeBytes;
  ASSERT_TRUE(ring::Start(ring_config));
  Session session(MakeConfig());
  ASSERT_TRUE(session.Init());
  for (uint64_t i = 1; ring::GetStats().used_bytes * 4 < ring::GetStats().present_bytes * 3; i++) {
    ASSERT_TRUE(SendAlloc(i, 0));
  }
  const uint64_t used = ring::GetStats().used_bytes;
  ASSERT_TRUE(SendStack(200, {{0x30, 0, 0}, {999, kNode, ring::kFrameForward}}));
  session.Pass(false);
  EXPECT_LT(ring::GetStats().used_bytes, used / 2);
  ring::Stop(1000);
}

TEST_F(Attribution, FramesNameTheirObjects) {
  StartBoth();
  ASSERT_TRUE(ring::RecordCode({500, "module.py", 9, "call", 4, "", 0, 1, 11}));
  ASSERT_TRUE(SendStack(1, {{500, 2, ring::kFramePython | 17u << ring::kFrameObjectShift}}));
  ASSERT_TRUE(SendStack(2, {{500, 2, ring::kFramePython | 18u << ring::kFrameObjectShift}}));
  ASSERT_TRUE(SendAlloc(1, 1));
  Stop(5000);
  const Decoded d = DecodeFile(path());
  ASSERT_EQ(d.error, "");
  EXPECT_EQ(d.Frames(d.stack_of_key.at(1))[0].nn_module(), 17u);
  EXPECT_EQ(d.Frames(d.stack_of_key.at(2))[0].nn_module(), 18u);
}

TEST_F(Attribution, ReadyDefinitionsGoOutAsTheyAre) {
  pb::NnModule module;
  module.set_id(17);
  module.set_name("transformer.h.0");
  const std::string bytes = module.SerializeAsString();
  StartBoth();
  const auto size = static_cast<uint32_t>(bytes.size());
  ASSERT_TRUE(ring::RecordReady(pb::Definitions::kNnModulesFieldNumber, bytes.data(), size));
  EXPECT_FALSE(ring::RecordReady(pb::Definitions::kNnModulesFieldNumber, bytes.data(), ring::kMaxReadyBytes + 1));
  ASSERT_TRUE(SendAlloc(1, 0));
  Stop(5000);
  const Decoded d = DecodeFile(path());
  ASSERT_EQ(d.error, "");
  std::vector<std::string> names;
  for (const pb::Packet& packet : d.packets) {
    for (const pb::NnModule& found : packet.definitions().nn_modules()) names.push_back(found.name());
  }
  EXPECT_THAT(names, ::testing::ElementsAre("transformer.h.0"));
}

}  // namespace
}  // namespace gpumemshim::writer
