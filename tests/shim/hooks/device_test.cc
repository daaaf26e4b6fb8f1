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

}  // namespace
}  // namespace gpumemshim::hooks
