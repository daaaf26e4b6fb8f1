// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/hooks/own_contexts.h"

#include "tests/shim/hooks/hook_fixture.h"

namespace gpumemshim::hooks {
namespace {

using OwnContexts = HookTest;

TEST_F(OwnContexts, NobodyIsAskedWithoutOne) {
  g_driver.context = MakeHandle<CUcontext>(0xc0);
  EXPECT_EQ(OwnContext(), 0u);
  EXPECT_EQ(g_driver.questions, 0);
}

TEST_F(OwnContexts, TheCurrentContextWhereItIsOne) {
  AddOwnContext(0xc0);
  EXPECT_EQ(OwnContext(), 0u);
  g_driver.context = MakeHandle<CUcontext>(0xc1);
  EXPECT_EQ(OwnContext(), 0u);
  g_driver.context = MakeHandle<CUcontext>(0xc0);
  EXPECT_EQ(OwnContext(), 0xc0u);
  g_driver.result = CUDA_ERROR_DEINITIALIZED;
  EXPECT_EQ(OwnContext(), 0u);
  RemoveOwnContext(0xc0);
  EXPECT_EQ(g_own_contexts.load(), 0);
}

TEST_F(OwnContexts, NullAndStrangersAreNone) {
  AddOwnContext(0);
  RemoveOwnContext(0);
  RemoveOwnContext(0xc0);
  EXPECT_EQ(g_own_contexts.load(), 0);
  EXPECT_FALSE(IsOwnContext(0));
  EXPECT_FALSE(TakeUser(0xc0));
  AddUser(0xc0);
  EXPECT_FALSE(TakeUser(0xc0));
}

TEST_F(OwnContexts, Users) {
  AddOwnContext(0xc0);
  AddUser(0xc0);
  AddUser(0xc0);
  EXPECT_TRUE(TakeUser(0xc0));
  EXPECT_TRUE(TakeUser(0xc0));
  EXPECT_FALSE(TakeUser(0xc0));
  EXPECT_TRUE(IsOwnContext(0xc0));
  AddUser(0xc0);
  RemoveOwnContext(0xc0);
  // The address is given out again: the new context has no users yet.
  AddOwnContext(0xc0);
  EXPECT_FALSE(TakeUser(0xc0));
  RemoveOwnContext(0xc0);
}

TEST_F(OwnContexts, BeyondTheTableTheyCountAsThePrimaryOne) {
  constexpr uint64_t kRoom = 256;
  for (uint64_t context = 1; context <= kRoom + 1; ++context) AddOwnContext(context);
  EXPECT_EQ(g_own_contexts.load(), int{kRoom});
  EXPECT_TRUE(IsOwnContext(kRoom));
  EXPECT_FALSE(IsOwnContext(kRoom + 1));
  for (uint64_t context = 1; context <= kRoom + 1; ++context) RemoveOwnContext(context);
  EXPECT_EQ(g_own_contexts.load(), 0);
}

}  // namespace
}  // namespace gpumemshim::hooks
