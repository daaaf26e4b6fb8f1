// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/hooks/device.h"

#include "tests/shim/hooks/hook_fixture.h"

namespace gpumemshim::hooks {
namespace {

using DeviceTest = HookTest;

TEST_F(DeviceTest, TheCurrentContextsDevice) {
  EXPECT_EQ(CurrentDevice(), 3);
  g_driver.result = CUDA_ERROR_INVALID_CONTEXT;
  EXPECT_EQ(CurrentDevice(), kNoDevice);
}

TEST_F(DeviceTest, TheDeviceOfAnAddressElseTheCurrentOne) {
  EXPECT_EQ(DeviceOfAddress(0x7000), 5);
  g_driver.device_of_address = -1;
  EXPECT_EQ(DeviceOfAddress(0x7000), 3);
  g_driver.result = CUDA_ERROR_INVALID_VALUE;
  EXPECT_EQ(DeviceOfAddress(0x7000), kNoDevice);
}

TEST_F(DeviceTest, NamedStreamsAreTheCurrentContexts) {
  for (const uint64_t stream : {0, 1, 2}) EXPECT_EQ(DeviceOfStreamAllocation(stream, 0x7000), 3);
  EXPECT_EQ(DeviceOfStreamAllocation(3, 0x7000), 5);
}

TEST_F(DeviceTest, TheSizeOfAnAllocation) {
  EXPECT_EQ(SizeOfAddress(0x7000), 4096u);
  g_driver.result = CUDA_ERROR_INVALID_VALUE;
  EXPECT_EQ(SizeOfAddress(0x7000), 0u);
}

TEST_F(DeviceTest, MemoryOfTheCurrentDeviceAlone) {
  uint64_t free_bytes = 1;
  uint64_t total_bytes = 1;
  EXPECT_TRUE(MemoryOfDevice(3, &free_bytes, &total_bytes));
  EXPECT_EQ(free_bytes, 1000u);
  EXPECT_EQ(total_bytes, 4000u);
  EXPECT_EQ(g_driver.capture_mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
  EXPECT_FALSE(MemoryOfDevice(4, &free_bytes, &total_bytes));
  EXPECT_FALSE(MemoryOfDevice(kNoDevice, &free_bytes, &total_bytes));
  g_driver.result = CUDA_ERROR_DEINITIALIZED;
  EXPECT_FALSE(MemoryOfDevice(3, &free_bytes, &total_bytes));
}

TEST_F(DeviceTest, WhatAPoolHolds) {
  uint64_t used = 0;
  uint64_t reserved = 0;
  EXPECT_TRUE(MemoryOfPool(0x6000, kNoDevice, &used, &reserved));
  EXPECT_EQ(used, 11u);
  EXPECT_EQ(reserved, 22u);
  EXPECT_TRUE(MemoryOfPool(0, 3, &used, &reserved));
  EXPECT_FALSE(MemoryOfPool(0, kNoDevice, &used, &reserved));
  g_driver.result = CUDA_ERROR_INVALID_VALUE;
  EXPECT_FALSE(MemoryOfPool(0x6000, 3, &used, &reserved));
}

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
