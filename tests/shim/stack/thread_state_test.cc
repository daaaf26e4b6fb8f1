// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/stack/thread_state.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

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

// Two probes of a new thread find each dead one's state once in a turn of the table.
TEST(ThreadState, AboutTwiceAsManyAsLiveAtATime) {
  constexpr uint32_t kAlive = 100;
  std::atomic<bool> may_end{false};
  std::vector<std::thread> alive;
  for (uint32_t i = 0; i < kAlive; ++i) {
    alive.emplace_back([&] {
      CurrentThread();
      may_end.wait(false);
    });
  }
  for (int i = 0; i < 3000; ++i) std::thread([] { EXPECT_NE(CurrentThread(), nullptr); }).join();
  EXPECT_LE(StateCount(), 2 * kAlive + 60);  // some are joined an instant before the kernel has buried them
  may_end.store(true);
  may_end.notify_all();
  for (std::thread& thread : alive) thread.join();
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
