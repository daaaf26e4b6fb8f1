// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/hooks/measure.h"

#include "shim/hooks/capture.h"
#include "tests/shim/hooks/hook_fixture.h"

namespace gpumemshim::hooks {
namespace {

using Measure = HookTest;

TEST_F(Measure, FreeMemoryFellOrRose) {
  const FreeMemory before = FreeMemory::Now();
  EXPECT_EQ(before.FellBy(), 0u);
  g_driver.free_bytes = 900;
  EXPECT_EQ(before.FellBy(), 100u);
  g_driver.free_bytes = 1100;
  EXPECT_EQ(before.FellBy(), 0u);
}

TEST_F(Measure, OfTwoDevicesNothingIsKnown) {
  const FreeMemory before = FreeMemory::Now();
  g_driver.device = 4;
  g_driver.free_bytes = 900;
  EXPECT_EQ(before.FellBy(), 0u);
}

TEST_F(Measure, NothingIsAskedInACapture) {
  const FreeMemory before = FreeMemory::Now();
  g_driver.free_bytes = 900;
  g_driver.questions = 0;
  capture::g_active.store(1);
  uint64_t bytes = 77;
  EXPECT_EQ(before.FellBy(), 0u);
  EXPECT_EQ(FreeMemory::Now().FellBy(), 0u);
  EXPECT_FALSE(GraphMemoryReserved(3, &bytes));
  EXPECT_EQ(bytes, 77u);
  EXPECT_EQ(PoolReserved(MakeHandle<CUmemoryPool>(0x6000)), 0u);
  EXPECT_EQ(g_driver.questions, 0);
}

TEST_F(Measure, ADriverThatDoesNotAnswer) {
  g_driver.result = CUDA_ERROR_NOT_SUPPORTED;
  uint64_t bytes = 77;
  EXPECT_EQ(FreeMemory::Now().FellBy(), 0u);
  EXPECT_FALSE(GraphMemoryReserved(3, &bytes));
  EXPECT_EQ(bytes, 77u);
  EXPECT_EQ(PoolReserved(MakeHandle<CUmemoryPool>(0x6000)), 0u);
}

TEST_F(Measure, GraphsAndPools) {
  g_driver.graph_reserved = 4096;
  uint64_t bytes = 0;
  EXPECT_TRUE(GraphMemoryReserved(3, &bytes));
  EXPECT_EQ(bytes, 4096u);
  EXPECT_FALSE(GraphMemoryReserved(kNoDevice, &bytes));
  EXPECT_EQ(PoolReserved(MakeHandle<CUmemoryPool>(0x6000)), 22u);
}

}  // namespace
}  // namespace gpumemshim::hooks
