// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Native stacks where unwinders go wrong, each compared frame by frame with libdw's: captured again and again, so that
// every cache between them and the stack is warm, and stale wherever it can be.

#include <alloca.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "check.h"

namespace {

INSTANTIATE_TEST_SUITE_P(Unwinders, Torture, testing::Values("libunwind", "libgcc"),
                         [](const auto& unwinder) { return std::string(unwinder.param); });

// --- ordinary code, optimised

struct Base {
  virtual ~Base() = default;
  virtual void Go(int depth) = 0;
};

template <typename F>
__attribute__((always_inline)) inline void Inlined(F&& f) {
  KEEP_FRAME;
  f();
  KEEP_FRAME;
}

struct Derived : Base {
  NO_INLINE void Go(int depth) override {
    Inlined([&] {
      const std::function<void()> next = [this, depth] {
        if (depth > 0) {
          Go(depth - 1);
        } else {
          g_check();
        }
        KEEP_FRAME;
      };
      next();
    });
  }
};

NO_INLINE void TailCallee(int) { g_check(); }                   // a jump, so no frame
NO_INLINE void TailCaller(int n) { return TailCallee(n + 1); }  // and another one

TEST_P(Torture, InliningLambdasVirtualAndTailCalls) {
  Derived derived;
  for (int round = 0; round < 400; ++round) {
    derived.Go(round % 7);
    TailCaller(round);
  }
}

NO_INLINE void Recurse(int depth) {
  if (depth == 0) {
    g_check();
  } else {
    Recurse(depth - 1);
  }
  KEEP_FRAME;
}

TEST_P(Torture, DeepRecursionIsCutAndSaysSo) {
  for (int round = 0; round < 3; ++round) Recurse(10'000);
  const Sent sent = LastSent();
  EXPECT_EQ(sent.pcs.size(), kMaxReferenceFrames);
  EXPECT_TRUE(sent.cut);
  for (int depth = 225; depth < 260; ++depth) Recurse(depth);
  Recurse(20);
  EXPECT_FALSE(LastSent().cut);
}

NO_INLINE void VariableFrame(size_t bytes) {
  void* room = alloca(bytes);
  std::memset(room, 0, bytes);
  g_check();
  __asm__ volatile("" ::"r"(room) : "memory");
}

TEST_P(Torture, FramesOfVariableSize) {
  for (int round = 0; round < 400; ++round) VariableFrame(static_cast<size_t>(16 + round % 9 * 48));
}

// --- exceptions and jumps

struct ChecksWhenDestroyed {
  ~ChecksWhenDestroyed() { g_check(); }
};

NO_INLINE void Throw(int depth) {
  const ChecksWhenDestroyed guard;
  if (depth == 0) throw std::runtime_error("thrown on purpose");
  Throw(depth - 1);
}

TEST_P(Torture, DestructorsAndHandlersOfExceptions) {
  for (int round = 0; round < 60; ++round) {
    try {
      Throw(round % 5);
      FAIL();
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "thrown on purpose");
      g_check();
    }
    g_check();
  }
}

NO_INLINE void JumpBack(int depth) {
  static jmp_buf back;
  if (setjmp(back) == 0) {
    Recurse(depth);
    longjmp(back, 1);
  }
  g_check();
  KEEP_FRAME;
}

TEST_P(Torture, LongJumps) {
  for (int round = 0; round < 100; ++round) JumpBack(round % 4);
}

// --- signals and other stacks

void OnSignal(int) {
  Recurse(2);
  KEEP_FRAME;
}

class Handler {
 public:
  explicit Handler(int flags) {
    struct sigaction action {};
    action.sa_handler = &OnSignal;
    action.sa_flags = flags;
    sigaction(SIGUSR1, &action, &before_);
  }
  ~Handler() { sigaction(SIGUSR1, &before_, nullptr); }
  Handler(const Handler&) = delete;
  Handler& operator=(const Handler&) = delete;

 private:
  struct sigaction before_;
};

NO_INLINE void RaiseAt(int depth) {
  if (depth == 0) {
    raise(SIGUSR1);
  } else {
    RaiseAt(depth - 1);
  }
  KEEP_FRAME;
}

TEST_P(Torture, SignalHandlers) {
  const Handler handler(0);
  for (int round = 0; round < 60; ++round) RaiseAt(round % 3);
}

TEST_P(Torture, SignalHandlersOnTheirOwnStack) {
  const size_t size = 256 * 1024;  // libdw works on it too
  const auto memory = std::make_unique<char[]>(size);
  stack_t own{};
  own.ss_sp = memory.get();
  own.ss_size = size;
  stack_t before{};
  ASSERT_EQ(sigaltstack(&own, &before), 0);
  {
    const Handler handler(SA_ONSTACK);
    for (int round = 0; round < 60; ++round) RaiseAt(round % 3);
  }
  ASSERT_EQ(sigaltstack(&before, nullptr), 0);
}

ucontext_t g_main;
ucontext_t g_coroutine;

void CoroutineBody() {
  Recurse(3);
  KEEP_FRAME;
}

TEST_P(Torture, Coroutines) {
  const size_t size = 256 * 1024;
  const auto memory = std::make_unique<char[]>(size);
  for (int round = 0; round < 60; ++round) {
    getcontext(&g_coroutine);
    g_coroutine.uc_stack.ss_sp = memory.get();
    g_coroutine.uc_stack.ss_size = size;
    g_coroutine.uc_link = &g_main;
    makecontext(&g_coroutine, &CoroutineBody, 0);
    swapcontext(&g_main, &g_coroutine);
  }
}

// --- threads

thread_local ChecksWhenDestroyed t_at_exit;

void* ThreadBody(void*) {
  (void)&t_at_exit;
  for (int round = 0; round < 20; ++round) Recurse(round % 6);
  return nullptr;
}

TEST_P(Torture, ForeignThreadsAndTheirEnd) {
  for (int round = 0; round < 5; ++round) {
    pthread_t thread;
    ASSERT_EQ(pthread_create(&thread, nullptr, &ThreadBody, nullptr), 0);
    pthread_join(thread, nullptr);
  }
}

struct Small {
  uint64_t hash[20];
};

// libdw itself needs more than such a stack has: here captures are compared with each other.
void* SmallBody(void* data) {
  auto* small = static_cast<Small*>(data);
  for (uint64_t& hash : small->hash) hash = ProbeCapture().hash;
  return nullptr;
}

TEST_P(Torture, SmallStacks) {
  for (const size_t bytes : {size_t{32} << 10, size_t{64} << 10}) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    ASSERT_EQ(pthread_attr_setstacksize(&attributes, bytes), 0);
    Small small{};
    pthread_t thread;
    ASSERT_EQ(pthread_create(&thread, &attributes, &SmallBody, &small), 0);
    pthread_join(thread, nullptr);
    pthread_attr_destroy(&attributes);
    EXPECT_NE(small.hash[1], 0u);
    for (const uint64_t hash : small.hash) EXPECT_EQ(hash, small.hash[1]) << bytes;
  }
  g_check();
}

TEST_P(Torture, Fork) {
  Recurse(3);
  const pid_t child = fork();
  if (child == 0) {
    ProbeForked();
    for (int round = 0; round < 20; ++round) Recurse(round % 5);
    _exit(HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
