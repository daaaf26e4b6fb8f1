// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include "tests/simcuda/driver/machine_fixture.h"

namespace simcuda {
namespace {

CUmemAllocationProp On(CUmemLocationType type, int id = 0) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {type, id};
  return properties;
}

class VirtualMemoryTest : public MachineFixture {
 protected:
  uint64_t Reserve(uint64_t size) {
    uint64_t address = 0;
    EXPECT_EQ(virtual_memory.Reserve({}, size, 0, 0, &address), CUDA_SUCCESS);
    return address;
  }
  uint64_t Create(uint64_t size, int device = 0) {
    uint64_t handle = 0;
    EXPECT_EQ(virtual_memory.Create({}, size, On(CU_MEM_LOCATION_TYPE_DEVICE, device), &handle), CUDA_SUCCESS);
    return handle;
  }
};

TEST_F(VirtualMemoryTest, PhysicalMemoryLivesUntilReleasedAndUnmapped) {
  const uint64_t address = Reserve(8 * kMiB), handle = Create(4 * kMiB, 1);
  EXPECT_EQ(Used(1), 4 * kMiB);
  ASSERT_EQ(virtual_memory.Map({}, address, 4 * kMiB, 0, handle), CUDA_SUCCESS);
  ASSERT_EQ(virtual_memory.Release({}, handle), CUDA_SUCCESS);
  EXPECT_EQ(Used(1), 4 * kMiB);
  EXPECT_EQ(virtual_memory.Release({}, handle), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(virtual_memory.Unmap({}, address, 4 * kMiB), CUDA_SUCCESS);
  EXPECT_EQ(Used(1), 0u);
  EXPECT_EQ(Live(1), 0u);
}

TEST_F(VirtualMemoryTest, RetainAddsAReference) {
  const uint64_t address = Reserve(2 * kMiB), handle = Create(2 * kMiB);
  uint64_t retained = 0;
  EXPECT_EQ(virtual_memory.RetainAt({}, address, &retained), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(virtual_memory.Map({}, address, 2 * kMiB, 0, handle), CUDA_SUCCESS);
  ASSERT_EQ(virtual_memory.RetainAt({}, address + 5, &retained), CUDA_SUCCESS);
  EXPECT_EQ(retained, handle);
  ASSERT_EQ(virtual_memory.Unmap({}, address, 2 * kMiB), CUDA_SUCCESS);
  ASSERT_EQ(virtual_memory.Release({}, handle), CUDA_SUCCESS);
  EXPECT_EQ(Used(), 2 * kMiB);
  ASSERT_EQ(virtual_memory.Release({}, handle), CUDA_SUCCESS);
  EXPECT_EQ(Used(), 0u);
}

TEST_F(VirtualMemoryTest, UnmapSpansWholeMappingsOnly) {
  const uint64_t address = Reserve(8 * kMiB), a = Create(2 * kMiB), b = Create(4 * kMiB);
  ASSERT_EQ(virtual_memory.Map({}, address, 2 * kMiB, 0, a), CUDA_SUCCESS);
  ASSERT_EQ(virtual_memory.Map({}, address + 2 * kMiB, 4 * kMiB, 0, b), CUDA_SUCCESS);
  EXPECT_EQ(virtual_memory.Unmap({}, address, 4 * kMiB), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(virtual_memory.Unmap({}, address, 8 * kMiB), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(virtual_memory.Unreserve({}, address, 8 * kMiB), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(virtual_memory.Unmap({}, address, 6 * kMiB), CUDA_SUCCESS);
  EXPECT_EQ(virtual_memory.Unreserve({}, address, 8 * kMiB), CUDA_SUCCESS);
}

TEST_F(VirtualMemoryTest, MapChecksItsArguments) {
  const uint64_t address = Reserve(4 * kMiB), handle = Create(2 * kMiB);
  EXPECT_EQ(virtual_memory.Map({}, address + 4 * kMiB, 2 * kMiB, 0, handle), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(virtual_memory.Map({}, address, 4 * kMiB, 0, handle), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(virtual_memory.Map({}, address, 2 * kMiB, 0, 0xbad), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(virtual_memory.Map({}, address, 2 * kMiB, 0, handle), CUDA_SUCCESS);
  EXPECT_EQ(virtual_memory.Map({}, address, 2 * kMiB, 0, handle), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(VirtualMemoryTest, CreateChecksLocationSizeAndCapacity) {
  uint64_t handle = 0;
  EXPECT_EQ(virtual_memory.Create({}, 2 * kMiB, On(CU_MEM_LOCATION_TYPE_DEVICE, 2), &handle),
            CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(virtual_memory.Create({}, kMiB, On(CU_MEM_LOCATION_TYPE_DEVICE), &handle), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(virtual_memory.Create({}, 66 * kMiB, On(CU_MEM_LOCATION_TYPE_DEVICE), &handle), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(Used(), 0u);
}

TEST_F(VirtualMemoryTest, HostMemoryIsChargedToNoDeviceAndHostVisible) {
  uint64_t handle = 0;
  ASSERT_EQ(virtual_memory.Create({}, 2 * kMiB, On(CU_MEM_LOCATION_TYPE_HOST_NUMA), &handle), CUDA_SUCCESS);
  EXPECT_EQ(Used(0) + Used(1), 0u);
  const uint64_t address = Reserve(2 * kMiB);
  ASSERT_EQ(virtual_memory.Map({}, address, 2 * kMiB, 0, handle), CUDA_SUCCESS);
  const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_HOST_NUMA, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  ASSERT_EQ(virtual_memory.SetAccess({}, address, 2 * kMiB, &access, 1), CUDA_SUCCESS);
  *reinterpret_cast<int*>(address) = 3;
  int read = 0;
  machine.Copy(reinterpret_cast<uint64_t>(&read), address, sizeof read);
  EXPECT_EQ(read, 3);
  ASSERT_EQ(virtual_memory.Unmap({}, address, 2 * kMiB), CUDA_SUCCESS);
  EXPECT_DEATH(*reinterpret_cast<volatile int*>(address) = 1, "");
}

TEST_F(VirtualMemoryTest, ReservationHonoursAFreeHint) {
  const uint64_t first = Reserve(4 * kMiB);
  ASSERT_EQ(virtual_memory.Unreserve({}, first, 4 * kMiB), CUDA_SUCCESS);
  const uint64_t hint = first + 64 * kMiB;
  uint64_t address = 0;
  ASSERT_EQ(virtual_memory.Reserve({}, 4 * kMiB, 0, hint, &address), CUDA_SUCCESS);
  EXPECT_EQ(address, hint);
  ASSERT_EQ(virtual_memory.Reserve({}, 4 * kMiB, 0, hint, &address), CUDA_SUCCESS);
  EXPECT_NE(address, hint);
}

}  // namespace
}  // namespace simcuda
