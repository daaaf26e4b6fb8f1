// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include "tests/simcuda/driver/machine_fixture.h"

namespace simcuda {
namespace {

using LinearMemoryTest = MachineFixture;

cuuint64_t Attribute(LinearMemory* linear, MemoryPool* pool, CUmemPool_attribute attribute) {
  cuuint64_t value = 0;
  EXPECT_EQ(linear->GetPoolAttribute(pool, attribute, &value), CUDA_SUCCESS);
  return value;
}

TEST_F(LinearMemoryTest, ChargesGranulesAndCountsRequestedBytes) {
  const uint64_t a = Allocate(100), b = Allocate(3 * kMiB);
  EXPECT_EQ(Used(), kGranule + 2 * kGranule);
  EXPECT_EQ(Live(), 100 + 3 * kMiB);
  EXPECT_EQ(linear.Free({}, a), CUDA_SUCCESS);
  EXPECT_EQ(linear.Free({}, b), CUDA_SUCCESS);
  EXPECT_EQ(Used(), 0u);
  EXPECT_EQ(Live(), 0u);
  EXPECT_EQ(machine.device(0).peak_used_bytes(), 3 * kGranule);
}

TEST_F(LinearMemoryTest, DevicesAreAccountedApart) {
  Allocate(60 * kMiB, 0);
  const uint64_t other = Allocate(60 * kMiB, 1);
  EXPECT_EQ(Used(0), 60 * kMiB);
  EXPECT_EQ(Used(1), 60 * kMiB);
  ASSERT_EQ(linear.Free({.device = 0}, other), CUDA_SUCCESS);  // freed from the other device's thread
  EXPECT_EQ(Used(0), 60 * kMiB);
  EXPECT_EQ(Used(1), 0u);
}

TEST_F(LinearMemoryTest, OutOfMemoryChangesNothing) {
  uint64_t address = 0;
  EXPECT_EQ(linear.Allocate({.device = 0}, 65 * kMiB, AllocationKind::kDevice, &address), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(linear.Allocate({.device = 0}, ~uint64_t{0}, AllocationKind::kDevice, &address), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(Used(), 0u);
  Allocate(64 * kMiB);
}

TEST_F(LinearMemoryTest, UnknownPointersAreRefused) {
  const uint64_t address = Allocate(4 * kMiB);
  EXPECT_EQ(linear.Free({}, address + 512), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(linear.Free({}, 0x1234), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(linear.Free({}, 0), CUDA_SUCCESS);
  EXPECT_EQ(linear.Free({}, address), CUDA_SUCCESS);
  EXPECT_EQ(linear.Free({}, address), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(LinearMemoryTest, FreedAddressesComeBackInTheSameOrder) {
  std::vector<uint64_t> first, second;
  for (std::vector<uint64_t>* run : {&first, &second}) {
    for (const uint64_t size : {700u, 3u << 20, 512u, 9u << 20}) run->push_back(Allocate(size));
    for (const uint64_t address : *run) linear.Free({}, address);
  }
  EXPECT_EQ(first, second);
}

TEST_F(LinearMemoryTest, PoolKeepsFreedMemoryUntilSynchronised) {
  MemoryPool* const pool = linear.default_pool(0);
  uint64_t address = 0;
  ASSERT_EQ(linear.AllocateFromPool({.device = 0}, nullptr, 5 * kMiB, &address), CUDA_SUCCESS);
  EXPECT_EQ(Attribute(&linear, pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 6 * kMiB);
  EXPECT_EQ(Attribute(&linear, pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 5 * kMiB);
  ASSERT_EQ(linear.FreeAsync({}, address), CUDA_SUCCESS);
  EXPECT_EQ(Attribute(&linear, pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0u);
  EXPECT_EQ(Used(), 6 * kMiB);
  linear.Synchronize(1);
  EXPECT_EQ(Used(), 6 * kMiB);
  linear.Synchronize(0);
  EXPECT_EQ(Used(), 0u);
  EXPECT_EQ(Attribute(&linear, pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 5 * kMiB);
}

TEST_F(LinearMemoryTest, ReleaseThresholdAndTrim) {
  MemoryPool* const pool = linear.default_pool(0);
  const cuuint64_t threshold = ~cuuint64_t{0};
  ASSERT_EQ(linear.SetPoolAttribute({}, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold), CUDA_SUCCESS);
  uint64_t a = 0, b = 0;
  ASSERT_EQ(linear.AllocateFromPool({.device = 0}, nullptr, 8 * kMiB, &a), CUDA_SUCCESS);
  ASSERT_EQ(linear.AllocateFromPool({.device = 0}, nullptr, 8 * kMiB, &b), CUDA_SUCCESS);
  linear.FreeAsync({}, b);
  linear.Synchronize(0);
  EXPECT_EQ(Used(), 16 * kMiB);
  ASSERT_EQ(linear.TrimPool({}, pool, 12 * kMiB), CUDA_SUCCESS);
  EXPECT_EQ(Used(), 12 * kMiB);
  ASSERT_EQ(linear.TrimPool({}, pool, 0), CUDA_SUCCESS);
  EXPECT_EQ(Used(), 8 * kMiB);
}

TEST_F(LinearMemoryTest, DestroyedPoolLivesUntilItsLastFree) {
  MemoryPool* pool = nullptr;
  ASSERT_EQ(linear.CreatePool({.device = 1}, 0, &pool), CUDA_SUCCESS);
  uint64_t address = 0;
  ASSERT_EQ(linear.AllocateFromPool({.device = 1}, pool, kMiB, &address), CUDA_SUCCESS);
  ASSERT_EQ(linear.DestroyPool({}, pool), CUDA_SUCCESS);
  EXPECT_EQ(Used(1), kGranule);
  EXPECT_EQ(linear.Free({}, address), CUDA_SUCCESS);
  EXPECT_EQ(Used(1), 0u);
  EXPECT_EQ(linear.DestroyPool({}, linear.default_pool(0)), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(LinearMemoryTest, ManagedMemoryIsChargedToNobodyAndNotFreedAsync) {
  const uint64_t address = Allocate(500 * kMiB, 0, AllocationKind::kManaged);
  EXPECT_EQ(Used(), 0u);
  EXPECT_EQ(linear.FreeAsync({}, address), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(linear.Free({}, address), CUDA_SUCCESS);
}

TEST_F(LinearMemoryTest, ContextTakesItsMemoryAlong) {
  const int one = 0, other = 0;
  uint64_t address = 0;
  ASSERT_EQ(linear.Allocate({.device = 0, .context = &one}, kMiB, AllocationKind::kDevice, &address), CUDA_SUCCESS);
  ASSERT_EQ(linear.Allocate({.device = 0, .context = &other}, kMiB, AllocationKind::kDevice, &address), CUDA_SUCCESS);
  linear.DropContext({.context = &one});
  EXPECT_EQ(linear.live_allocations(), 1u);
  EXPECT_EQ(Live(), kMiB);
}

}  // namespace
}  // namespace simcuda
