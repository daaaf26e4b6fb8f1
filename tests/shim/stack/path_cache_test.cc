// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Where a remembered path could lie: other callers at the same depth, recursion, frames of changing size, other
// coroutines on one stack. The truth is what the unwinder says at first sight, when nothing is remembered yet.

#include "shim/stack/path_cache.h"

#include <alloca.h>
#include <gtest/gtest.h>
#include <ucontext.h>

#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>

#include "shim/stack/capture.h"
#include "shim/stack/thread_state.h"

namespace gpumemshim::stack {
namespace {

#define KEEP_FRAME __asm__ volatile("" ::: "memory")
#define NO_INLINE __attribute__((noinline, noclone))

class PathCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    Enable({.python = false, .unwinder = Unwinder::kLibunwind});
    if (CurrentUnwinder() != Unwinder::kLibunwind) GTEST_SKIP() << "no libunwind here";
  }

  // Calls capture(i) for random i < count; each i must always have its own one answer, and most of them from memory.
  static void ExpectOneAnswerEach(int count, const std::function<uint64_t(int)>& capture) {
    std::mt19937 random(7);
    std::map<int, uint64_t> known;
    const uint64_t hits_before = CurrentThread()->paths.hits();
    for (int round = 0; round < 20000; ++round) {
      const int which = round < count ? round : static_cast<int>(random() % static_cast<unsigned>(count));
      const uint64_t hash = capture(which);
      ASSERT_EQ(hash, known.emplace(which, hash).first->second) << which << " in round " << round;
    }
    EXPECT_GT(CurrentThread()->paths.hits(), hits_before + 10000);
    std::set<uint64_t> different;
    for (const auto& [which, hash] : known) different.insert(hash);
    EXPECT_EQ(different.size(), static_cast<size_t>(count));
  }
};

// Our own frames do not count, and here everything is ours for as long as twelve frames.
NO_INLINE uint64_t Inner(int depth = 16) {
  const uint64_t hash = depth == 0 ? Capture() : Inner(depth - 1);
  KEEP_FRAME;
  return hash;
}

// Equal but for its return address: the same depth, the same frame, another caller.
template <int kWhich>
NO_INLINE uint64_t Caller() {
  const uint64_t hash = Inner();
  KEEP_FRAME;
  __asm__ volatile("" ::"i"(kWhich));
  return hash;
}

TEST_F(PathCacheTest, OtherCallersAtTheSameDepth) {
  uint64_t (*const callers[])() = {&Caller<0>, &Caller<1>, &Caller<2>, &Caller<3>};
  ExpectOneAnswerEach(4, [&](int i) { return callers[i](); });
}

NO_INLINE uint64_t Recurse(int depth) {
  const uint64_t hash = depth == 0 ? Inner() : Recurse(depth - 1);
  KEEP_FRAME;
  return hash;
}

TEST_F(PathCacheTest, Recursion) {
  ExpectOneAnswerEach(12, [](int i) { return Recurse(i); });
}

struct alignas(64) Wide {
  char bytes[64];
};

// A frame that gcc realigns: its caller's stack pointer is read from memory.
NO_INLINE uint64_t Realigned() {
  Wide wide;
  __asm__ volatile("" ::"r"(&wide) : "memory");
  const uint64_t hash = Inner();
  __asm__ volatile("" ::"r"(&wide) : "memory");
  return hash;
}

template <size_t kBytes>
NO_INLINE uint64_t Shifted() {
  volatile char room[kBytes];
  room[0] = 1;
  const uint64_t hash = Realigned();
  KEEP_FRAME;
  return hash + static_cast<uint64_t>(room[0]) - 1;
}

TEST_F(PathCacheTest, RealignedFrames) {
  uint64_t (*const callers[])() = {&Shifted<8>, &Shifted<24>, &Shifted<40>, &Shifted<56>, &Shifted<72>};
  ExpectOneAnswerEach(5, [&](int i) { return callers[i](); });
}

ucontext_t g_main;
ucontext_t g_coroutine;
uint64_t g_answer;

template <int kWhich>
NO_INLINE void Body() {
  g_answer = Caller<kWhich>();
  KEEP_FRAME;
}

TEST_F(PathCacheTest, CoroutinesOnOneStack) {
  constexpr size_t kStackBytes = 256 * 1024;
  const auto stack = std::make_unique<char[]>(kStackBytes);
  void (*const bodies[])() = {&Body<0>, &Body<1>, &Body<2>};
  ExpectOneAnswerEach(3, [&](int i) {
    getcontext(&g_coroutine);
    g_coroutine.uc_stack.ss_sp = stack.get();
    g_coroutine.uc_stack.ss_size = kStackBytes;
    g_coroutine.uc_link = &g_main;
    makecontext(&g_coroutine, bodies[i], 0);
    swapcontext(&g_main, &g_coroutine);
    return g_answer;
  });
}

// The inner frame's end moves while its start stays: an unwinder finds it by its frame pointer alone. What an earlier
// call left on the stack still stands in the room that is not written to.
NO_INLINE uint64_t Sized(size_t bytes) {
  void* room = alloca(bytes);
  __asm__ volatile("" ::"r"(room) : "memory");
  const uint64_t hash = Inner();
  KEEP_FRAME;
  return hash;
}

NO_INLINE uint64_t TwoCallers(size_t bytes, size_t inner_bytes, bool first) {
  void* room = alloca(bytes);
  __asm__ volatile("" ::"r"(room) : "memory");
  uint64_t hash = 0;
  if (first) {
    hash = Sized(inner_bytes);
    KEEP_FRAME;
  } else {
    hash = Sized(inner_bytes);
    __asm__ volatile("nop" ::: "memory");
  }
  KEEP_FRAME;
  return hash;
}

TEST_F(PathCacheTest, FramesOfChangingSizeOverStaleWords) {
  std::map<bool, uint64_t> known;
  const uint64_t hits_before = CurrentThread()->paths.hits();
  std::mt19937 random(3);
  for (int round = 0; round < 20000; ++round) {
    const size_t outer = random() % 2 == 0 ? 64 : 512;
    const bool first = random() % 2 == 0;
    const uint64_t hash = TwoCallers(outer, 64 + 1024 - outer, first);
    ASSERT_EQ(hash, known.emplace(first, hash).first->second) << outer << " in round " << round;
  }
  EXPECT_NE(known[true], known[false]);
  EXPECT_GT(CurrentThread()->paths.hits(), hits_before + 10000);
}

TEST(PathCache, LearnsWhatComesAgainAsLongAsItPays) {
  const auto cache = std::make_unique<PathCache>();
  EXPECT_FALSE(cache->IsWorthLearning(1, 2));
  EXPECT_TRUE(cache->IsWorthLearning(1, 2));
  cache->Refuse(1, 2);
  EXPECT_FALSE(cache->IsWorthLearning(1, 2));
  int lessons = 0;
  for (uint64_t key = 0; key < 100'000; ++key) {
    cache->IsWorthLearning(key << 20 | 5, 0);
    if (cache->IsWorthLearning(key << 20 | 5, 0)) ++lessons;
  }
  EXPECT_GT(lessons, 500);
  EXPECT_LT(lessons, 1900);
}

}  // namespace
}  // namespace gpumemshim::stack
