// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "attach/safe_point.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <vector>

namespace gpumem {
namespace {

constexpr uint64_t kProgram = 0x400000, kLibc = 0x10000, kLoader = 0x80000, kJemalloc = 0xa0000;

// malloc's helpers lie between `printf` and `malloc`, those of pthread_create before it.
class SafePointTest : public ::testing::Test {
 protected:
  SafePointTest() {
    map_.objects = {{"/usr/bin/program", kProgram, {{kProgram, kProgram + 0x1000}}},
                    {"/lib/libc.so.6", kLibc, {{kLibc, kLibc + 0x10000}}},
                    {"/lib/ld-linux-x86-64.so.2", kLoader, {{kLoader, kLoader + 0x1000}}},
                    {"/lib/libjemalloc.so.2", kJemalloc, {{kJemalloc, kJemalloc + 0x1000}}}};
    libc_.functions = {{"printf", kLibc + 0x100, kLibc + 0x200},           {"malloc", kLibc + 0x1000, kLibc + 0x1100},
                       {"strlen", kLibc + 0x2000, kLibc + 0x2100},         {"poll", kLibc + 0x3000, kLibc + 0x3100},
                       {"pthread_create", kLibc + 0x4000, kLibc + 0x4100}, {"qsort", kLibc + 0x5000, kLibc + 0x5100}};
  }
  bool Allows(uint64_t rip, std::vector<uint64_t> stack, long call = -1) {  // NOLINT(google-runtime-int)
    user_regs_struct registers{};
    registers.rip = rip;
    registers.orig_rax = static_cast<uint64_t>(call);
    stack.resize(64, 7);
    return SafePoint(map_, Parts()).Allows(registers, stack);
  }

  std::vector<CLibraryPart> Parts() const { return {{libc_, map_.objects[1].code[0]}}; }

  ProcessMap map_;
  ObjectFunctions libc_;
};

TEST_F(SafePointTest, TheProgramsOwnCodeIsFine) { EXPECT_TRUE(Allows(kProgram + 5, {kProgram + 9})); }

TEST_F(SafePointTest, NotInTheAllocatorWhoeverCalls) {
  EXPECT_FALSE(Allows(kLibc + 0x1010, {kProgram}));
  EXPECT_FALSE(Allows(kLibc + 0x800, {kProgram}, SYS_futex));            // a function of malloc.c that is not exported
  EXPECT_FALSE(Allows(kLibc + 0x3010, {0, kLibc + 0x1900}, SYS_futex));  // another behind it, waiting for its lock
  EXPECT_FALSE(Allows(kJemalloc + 1, {}));
  EXPECT_FALSE(Allows(kProgram + 5, {kJemalloc + 8}));  // its hook
}

TEST_F(SafePointTest, NotInTheLoaderOrWhereThreadsBegin) {
  EXPECT_FALSE(Allows(kLoader + 1, {}));
  EXPECT_FALSE(Allows(kProgram + 5, {1, kLoader + 1}));
  EXPECT_FALSE(Allows(kLibc + 0x4010, {}));
}

TEST_F(SafePointTest, InTheCLibraryOnlyWhereTheKernelWaits) {
  EXPECT_FALSE(Allows(kLibc + 0x2010, {kProgram}));
  EXPECT_TRUE(Allows(kLibc + 0x3010, {kProgram}, SYS_poll));
  EXPECT_TRUE(Allows(kLibc + 0x3010, {kProgram}, SYS_epoll_wait));
  EXPECT_TRUE(SafePoint::EndsWithStop(SYS_epoll_wait));
  EXPECT_FALSE(SafePoint::EndsWithStop(SYS_poll));
  EXPECT_FALSE(Allows(kLibc + 0x3010, {kProgram}, SYS_mmap));
}

TEST_F(SafePointTest, WhatIsLeftOfCallsThatAreOverDoesNotCount) {
  std::vector<uint64_t> stack(64, 7);
  stack[40] = kLoader + 1;
  EXPECT_TRUE(Allows(kProgram + 5, stack));
  EXPECT_FALSE(Allows(kLibc + 0x3010, stack, SYS_poll));
}

TEST_F(SafePointTest, WhatStaysWhereItIsDoesNotCountUnlessAnAllocatorCalled) {
  user_regs_struct registers{};
  registers.rip = kProgram;
  registers.orig_rax = ~uint64_t{0};
  const SafePoint safe_point(map_, Parts());
  const auto is_first = [](size_t i) { return i == 0; };
  EXPECT_TRUE(safe_point.Allows(registers, {kLoader + 1, 7, 7}, is_first));
  EXPECT_FALSE(safe_point.Allows(registers, {7, kLoader + 1, 7}, is_first));
  EXPECT_FALSE(safe_point.Allows(registers, {kJemalloc + 1, 7, 7}, is_first));
  registers.rip = kLoader;
  EXPECT_FALSE(safe_point.Allows(registers, {7}, is_first));
}

// As before glibc 2.34: files with the version in their names, threads in a library of their own.
TEST_F(SafePointTest, OlderGlibcHasSeveralLibraries) {
  constexpr uint64_t kThreads = 0xc0000;
  map_.objects[1].path = "/lib/libc-2.31.so";
  map_.objects.push_back({"/lib/libpthread-2.31.so", kThreads, {{kThreads, kThreads + 0x10000}}});
  map_.objects.push_back({"/lib/libcrypt-2.so", 0xf0000, {{0xf0000, 0xf1000}}});
  EXPECT_EQ(map_.FindOfGlibc("libc"), &map_.objects[1]);
  EXPECT_EQ(map_.FindOfGlibc("libpthread"), &map_.objects[4]);
  EXPECT_EQ(map_.FindOfGlibc("libdl"), nullptr);
  ObjectFunctions threads;
  threads.functions = {{"pthread_join", kThreads + 0x100, kThreads + 0x200},
                       {"pthread_create", kThreads + 0x1000, kThreads + 0x1100},
                       {"pthread_cond_wait", kThreads + 0x2000, kThreads + 0x2100}};
  const SafePoint safe_point(map_, std::vector<CLibraryPart>{Parts()[0], {threads, map_.objects[4].code[0]}});
  user_regs_struct registers{};
  const auto allows = [&](uint64_t rip, long call) {  // NOLINT(google-runtime-int)
    registers.rip = rip;
    registers.orig_rax = static_cast<uint64_t>(call);
    return safe_point.Allows(registers, {kProgram, 7, 7});
  };
  EXPECT_FALSE(allows(kThreads + 0x2010, -1));
  EXPECT_TRUE(allows(kThreads + 0x2010, SYS_futex));
  EXPECT_FALSE(allows(kThreads + 0x1010, SYS_futex));
}

TEST_F(SafePointTest, AStackThatCannotBeReadIsNone) {
  user_regs_struct registers{};
  registers.rip = kProgram;
  registers.orig_rax = ~uint64_t{0};
  EXPECT_FALSE(SafePoint(map_, Parts()).Allows(registers, {}));
}

}  // namespace
}  // namespace gpumem
