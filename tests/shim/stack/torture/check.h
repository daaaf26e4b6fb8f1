// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What the cases have in common: a capture compared with libdw's frames, for each unwinder.

#ifndef GPUMEM_TESTS_SHIM_STACK_TORTURE_CHECK_H_
#define GPUMEM_TESTS_SHIM_STACK_TORTURE_CHECK_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "probe.h"
#include "reference.h"

#define NO_INLINE __attribute__((noinline, noclone))
#define KEEP_FRAME __asm__ volatile("" ::: "memory")

inline constexpr size_t kMaxReferenceFrames = 256;
extern int g_checks;  // that stacks were compared at all

struct Sent {
  std::vector<uint64_t> pcs;
  std::vector<uint32_t> modules;
  bool cut;
};

// What the last capture of this thread sent; no ring is there, so each one sends.
Sent LastSent();

// What every case ends in: Check, through a pointer that the compiler cannot see through.
void Check();
extern void (*volatile g_check)();

class Torture : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const char* got = ProbeEnable(GetParam());
    ASSERT_STREQ(got, GetParam()) << "this test needs the unwinder";
    g_checks = 0;
  }
  void TearDown() override { EXPECT_GT(g_checks, 0); }
};

#endif  // GPUMEM_TESTS_SHIM_STACK_TORTURE_CHECK_H_
