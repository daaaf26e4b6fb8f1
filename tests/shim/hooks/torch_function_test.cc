// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/hooks/torch_function.h"

#include "shim/base/memory_checkers.h"
#include "tests/shim/hooks/hook_fixture.h"

namespace gpumemshim::hooks {
namespace {

using TorchFunctionTest = HookTest;

void* const kNext = reinterpret_cast<void*>(0x100);

TEST_F(TorchFunctionTest, AnotherPreloadBehindUsComesFirst) {
  g_around.next_in_scope["getauxval"] = kNext;
  TorchFunction function("libc.so", "getauxval");
  EXPECT_EQ(function.Find(), kNext);
}

TEST_F(TorchFunctionTest, ElseTheLibraryThatHasIt) {
  TorchFunction function("libc.so", "getauxval");
  void* found = function.Find();
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(reinterpret_cast<unsigned long (*)(unsigned long)>(found)(6), 4096u);  // AT_PAGESZ
}

TEST_F(TorchFunctionTest, WhatWasFoundIsRemembered) {
  TorchFunction function("libc.so", "getauxval");
  void* found = function.Find();
  g_around.next_in_scope["getauxval"] = kNext;
  EXPECT_EQ(function.Find(), found);
}

TEST_F(TorchFunctionTest, ThatNobodyHasItIsRememberedToo) {
  TorchFunction function("libc.so", "no_such_function_at_all");
  EXPECT_EQ(function.Find(), nullptr);
  g_around.next_in_scope["no_such_function_at_all"] = kNext;
  EXPECT_EQ(function.Find(), nullptr);
}

TEST_F(TorchFunctionTest, ErrnoIsKept) {
  errno = kErrnoOfCall;
  TorchFunction function("no_such_library", "getauxval");
  EXPECT_EQ(function.Find(), nullptr);
  EXPECT_EQ(errno, kErrnoOfCall);
  EXPECT_TRUE(g_past_memory_checkers.load());
}

}  // namespace
}  // namespace gpumemshim::hooks
