// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/stack/thread_state.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>

namespace gpumemshim::stack {
namespace {

TEST(ThreadState, OneAThread) {
  ThreadState* mine = CurrentThread();
  ASSERT_NE(mine, nullptr);
  EXPECT_EQ(CurrentThread(), mine);
  ThreadState* other = nullptr;
  std::thread([&] { other = CurrentThread(); }).join();
  EXPECT_NE(other, nullptr);
  EXPECT_NE(other, mine);
}

TEST(ThreadState, DeadThreadsLeaveTheirsToLaterOnes) {
  std::set<ThreadState*> used;
  for (int i = 0; i < 200; ++i) std::thread([&] { used.insert(CurrentThread()); }).join();
  EXPECT_LE(used.size(), 20u);  // a thread may be joined an instant before the kernel has buried it
}

TEST(ThreadState, NewRingForgetsWhatWasSent) {
  ThreadState* state = CurrentThread();
  state->stacks.Insert(77);
  EXPECT_TRUE(CurrentThread()->stacks.Contains(77));
  ForgetSent();
  EXPECT_FALSE(CurrentThread()->stacks.Contains(77));
}

}  // namespace
}  // namespace gpumemshim::stack
