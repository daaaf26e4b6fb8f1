// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/stack/autograd_nodes.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "shim/stack/thread_state.h"

namespace gpumemshim::stack {
namespace {

std::string NameOf(const char* mangled) {
  const NamePart part = LastName(mangled);
  return {part.text, part.size};
}

TEST(LastName, OfMangledClasses) {
  EXPECT_EQ(NameOf("N5torch8autograd9generated11MmBackward0E"), "MmBackward0");
  EXPECT_EQ(NameOf("N5torch8autograd14AccumulateGradE"), "AccumulateGrad");
  EXPECT_EQ(NameOf("6MyNode"), "MyNode");
  EXPECT_EQ(NameOf("*6MyNode"), "MyNode") << "the mark of a name that is compared by address";
  EXPECT_EQ(NameOf("N5torch8autograd7CppNodeI5ThingEE"), "CppNode");
  EXPECT_EQ(NameOf("N12_GLOBAL__N_14NodeE"), "Node");
}

TEST(LastName, OddTextStaysAsItIs) {
  EXPECT_EQ(NameOf(""), "");
  EXPECT_EQ(NameOf("999short"), "999short");
  EXPECT_EQ(NameOf("St4pairIiiE"), "St4pairIiiE");
  EXPECT_EQ(NameOf("99999999999999999999x"), "99999999999999999999x");
}

TEST(Forward, IsFoundByThreadAndNumber) {
  RememberForward(1, 17, 1234);
  RememberForward(2, 17, 5678);
  EXPECT_EQ(ForwardOf(1, 17), 1234u);
  EXPECT_EQ(ForwardOf(2, 17), 5678u);
  EXPECT_EQ(ForwardOf(3, 17), 0u);
  EXPECT_EQ(ForwardOf(1, ~uint64_t{0}), 0u) << "AccumulateGrad";
}

TEST(Forward, WhatWasOverwrittenIsNotKnown) {
  constexpr uint64_t kNodes = 1u << 20;
  for (uint64_t number = 0; number < kNodes; ++number) RememberForward(9, number, number + 1);
  EXPECT_EQ(ForwardOf(9, kNodes - 1), kNodes);
  uint64_t known = 0;
  for (uint64_t number = 0; number < kNodes; ++number) {
    const uint64_t stack = ForwardOf(9, number);
    if (stack == 0) continue;
    ASSERT_EQ(stack, number + 1) << "another node's";
    ++known;
  }
  EXPECT_GT(known, kNodes / 16);
  EXPECT_LT(known, kNodes / 4);
}

TEST(Forward, ThreadsNeverSeeHalves) {
  std::atomic<bool> stop{false};
  const auto write = [&](uint64_t thread) {
    for (uint64_t i = 0; !stop; ++i) RememberForward(thread, i % 4096, thread << 32 | i % 4096);
  };
  std::thread first(write, 1), second(write, 2);
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < 2'000'000; ++i) {
    const uint64_t stack = ForwardOf(1, i % 4096);
    wrong += stack != 0 && stack != (uint64_t{1} << 32 | i % 4096) ? 1 : 0;
  }
  stop = true;
  first.join();
  second.join();
  EXPECT_EQ(wrong, 0u);
}

TEST(Use, OfAParameterIsTheLastOne) {
  const uint64_t node[8] = {0, 0, 0, ~uint64_t{0}};
  EXPECT_EQ(UseOf(node), 0u);
  RememberUse(node, 17);
  RememberUse(node, 18);
  EXPECT_EQ(UseOf(node), 18u);
}

// Addresses as the heap has them, evenly apart, and the same in every run; sets filled at random would lose two to
// eleven of these.
TEST(Use, ThousandsOfParametersAreKnownAtOnce) {
  constexpr size_t kNodes = 16'000;
  for (const uintptr_t apart : {80, 96, 400, 416, 512, 4096}) {
    const auto node = [&](size_t i) { return reinterpret_cast<const void*>(0x7f3a'5c00'0010 + i * apart); };
    for (int round = 0; round < 3; ++round) {
      for (size_t i = 0; i < kNodes; ++i) RememberUse(node(i), i + 1);
    }
    size_t known = 0;
    for (size_t i = 0; i < kNodes; ++i) known += UseOf(node(i)) == i + 1 ? 1 : 0;
    EXPECT_GT(known, kNodes - kNodes / 1000) << "addresses " << apart << " bytes apart";
  }
}

// Calls deeper(), so that frames lie where those of real nested nodes would.
struct Node {
  const void* vtable = nullptr;
  uint64_t words[8] = {};
};

TEST(Nodes, ThoseThatWereLeftByALongjmpAreDropped) {
  ThreadState* state = CurrentThread();
  ASSERT_NE(state, nullptr);
  uint64_t frames[8] = {};  // later ones lie further out
  const auto at = [&](int i) { return reinterpret_cast<uintptr_t>(&frames[i]); };
  EXPECT_EQ(CurrentNode(state, at(0)), nullptr);
  state->nodes[0] = {at(5), 100, nullptr, 1};
  state->nodes[1] = {at(3), 200, nullptr, 2};
  t_nodes = 2;
  ASSERT_NE(CurrentNode(state, at(0)), nullptr);
  EXPECT_EQ(CurrentNode(state, at(0))->forward, 200u);
  EXPECT_EQ(CurrentNode(state, at(4))->forward, 100u) << "we stand outside of the inner one's frame";
  EXPECT_EQ(t_nodes, 1u);
  EXPECT_EQ(CurrentNode(state, at(6)), nullptr);
  EXPECT_EQ(t_nodes, 0u);
  AbandonNode();
  EXPECT_EQ(t_nodes, 0u) << "one that nobody counted";
}

// First what either layout would have, then the one that is found.
TEST(Nodes, OfEitherLayout) {
  Node older;  // words[2] lies at byte 24
  older.words[2] = 31;
  older.words[5] = 7;
  EXPECT_EQ(ForwardOfNode(&older), 0u);
  RememberForward(7, 31, 1234);
  Node accumulates = older;
  accumulates.words[2] = ~uint64_t{0};
  EXPECT_EQ(ForwardOfNode(&accumulates), 0u);
  Node newer;
  newer.words[1] = 31;
  newer.words[4] = 7;
  const uint64_t by_newer = ForwardOfNode(&newer), by_older = ForwardOfNode(&older);
  EXPECT_EQ(by_newer, 1234u) << "nothing was known of the layout";
  EXPECT_EQ(by_older, 0u) << "of one PyTorch all nodes have the same";
  newer.words[1] = ~uint64_t{0};
  RememberUse(&newer, 5678);
  EXPECT_EQ(ForwardOfNode(&newer), 5678u) << "without a number";
}

TEST(Nodes, AreCountedWhileNothingIsRecorded) {
  const Node node;
  const uint32_t before = EnterNode(&node, reinterpret_cast<uintptr_t>(&node));
  EXPECT_EQ(t_nodes, before + 1);
  EXPECT_EQ(CurrentNode(CurrentThread(), 0), nullptr);
  for (uint32_t depth = 0; depth < 2 * kMaxNodes; ++depth) EnterNode(&node, reinterpret_cast<uintptr_t>(&node));
  EXPECT_EQ(CurrentNode(CurrentThread(), 0), nullptr) << "deeper than is distinguished";
  LeaveNode(before);
  EXPECT_EQ(t_nodes, 0u);
}

}  // namespace
}  // namespace gpumemshim::stack
