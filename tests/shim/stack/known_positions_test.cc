// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/stack/known_positions.h"

#include <gtest/gtest.h>

#include <memory>

namespace gpumemshim::stack {
namespace {

// An interpreter whose frames are numbers: where they stand is the number, what they hold is known by the test.
uint64_t g_contents;
int g_reads;

Interpreter Fake() {
  Interpreter python{};
  python.hash_frames.positions = [](const PythonFrames& frames, uint32_t room) {
    return reinterpret_cast<uint64_t>(frames.innermost) * room;
  };
  python.hash_frames.contents = [](const PythonFrames&, uint32_t) {
    ++g_reads;
    return g_contents;
  };
  return python;
}

const void* Frame(uint64_t number) { return reinterpret_cast<const void*>(number); }

class KnownPositionsTest : public ::testing::Test {
 protected:
  KnownPositionsTest() { g_contents = 5, g_reads = 0; }
  ~KnownPositionsTest() override { g_dropped_code.destructor = nullptr; }

  void Watch() {
    destructor_ = reinterpret_cast<uintptr_t>(&CountDroppedCode);
    g_dropped_code.destructor = &destructor_;
  }

  uint64_t Hash(uint64_t frame) { return known_->Hash(python_, {Frame(frame), nullptr}, 1); }

  std::unique_ptr<KnownPositions> known_ = std::make_unique<KnownPositions>();
  Interpreter python_ = Fake();
  std::atomic<uintptr_t> destructor_{0};
};

TEST_F(KnownPositionsTest, ReadsContentsOnce) {
  Watch();
  const uint64_t hash = Hash(77);
  EXPECT_EQ(Hash(77), hash);
  EXPECT_EQ(g_reads, 1);
  EXPECT_NE(Hash(78), hash);
  EXPECT_EQ(g_reads, 2);
}

TEST_F(KnownPositionsTest, ReadsThemAgainOnceCodeWasFreed) {
  Watch();
  const uint64_t hash = Hash(77);
  ++g_dropped_code.count;
  EXPECT_EQ(Hash(77), hash);  // the same code still
  ++g_dropped_code.count;
  g_contents = 6;
  EXPECT_NE(Hash(77), hash);
  EXPECT_EQ(g_reads, 3);
}

TEST_F(KnownPositionsTest, ReadsThemAlwaysWhereNobodyTells) {
  const uint64_t unwatched = Hash(77);
  Hash(77);
  EXPECT_EQ(g_reads, 2);
  Watch();
  EXPECT_EQ(Hash(77), unwatched) << "the hash is the same with and without a watch";
  destructor_ = 1;  // somebody else took it
  Hash(77);
  Hash(77);
  EXPECT_EQ(g_reads, 5);
}

TEST_F(KnownPositionsTest, TwoThreadsGiveOneHash) {
  Watch();
  const auto other = std::make_unique<KnownPositions>();
  EXPECT_EQ(Hash(77), other->Hash(python_, {Frame(77), nullptr}, 1));
}

}  // namespace
}  // namespace gpumemshim::stack
