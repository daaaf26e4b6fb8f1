// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include "tests/simcuda/driver/memory_fixture.h"

namespace simcuda {
namespace {

using testing::ElementsAre;

void BindTwoDevices() {
  UsePrimaryContext();
  const size_t bytes = 4 * kMebibyte, free_before = FreeBytes();
  CUmulticastObjectProp properties{};
  properties.numDevices = 2;
  properties.size = bytes;
  size_t granularity = 0;
  EXPECT_EQ(cuMulticastGetGranularity(&granularity, &properties, CU_MULTICAST_GRANULARITY_MINIMUM), CUDA_SUCCESS);
  EXPECT_EQ(granularity, 2 * kMebibyte);
  CUmemGenericAllocationHandle multicast = 0;
  ASSERT_EQ(cuMulticastCreate(&multicast, &properties), CUDA_SUCCESS);
  EXPECT_EQ(FreeBytes(), free_before);  // an object of addresses, no memory
  const CUmemGenericAllocationHandle first = CreateMemory(bytes, 0), second = CreateMemory(bytes, 1);
  EXPECT_EQ(cuMulticastAddDevice(multicast, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMulticastAddDevice(multicast, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMulticastBindMem(multicast, 0, first, 0, bytes, 0), CUDA_ERROR_ILLEGAL_STATE);
  EXPECT_EQ(cuMulticastAddDevice(multicast, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuMulticastBindMem(multicast, 0, first, 0, bytes, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMulticastBindMem(multicast, 0, first, 0, bytes, 0), CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr address = 0, group = 0;
  ASSERT_EQ(cuMemAddressReserve(&address, bytes, 0, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemMap(address, bytes, 0, second, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMulticastBindAddr(multicast, 0, address, bytes, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAddressReserve(&group, bytes, 0, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemMap(group, bytes, 0, multicast, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(first), CUDA_SUCCESS);
  EXPECT_EQ(FreeBytes(), free_before - bytes);  // bound memory lives on
  EXPECT_EQ(cuMulticastUnbind(multicast, 0, 0, bytes), CUDA_SUCCESS);
  EXPECT_EQ(FreeBytes(), free_before);
  EXPECT_EQ(cuMulticastUnbind(multicast, 0, 0, bytes), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemRelease(multicast), CUDA_SUCCESS);
  EXPECT_EQ(cuMemUnmap(group, bytes), CUDA_SUCCESS);  // the last of it: what is still bound is let go
  EXPECT_EQ(cuMemRelease(second), CUDA_SUCCESS);
  EXPECT_EQ(cuMemUnmap(address, bytes), CUDA_SUCCESS);
}

TEST(MulticastTest, KeepsWhatIsBoundAndTakesNothing) {
  EXPECT_THAT(
      KindsOf("multicast", BindTwoDevices, {{"SIMCUDA_DEVICES", "2"}}),
      ElementsAre("multicast_create", "create", "create", "multicast_add", "multicast_add", "multicast_bind", "reserve",
                  "map", "multicast_bind", "reserve", "map", "release", "multicast_unbind", "physical_free", "release",
                  "unmap", "multicast_destroy", "release", "unmap", "physical_free"));
}

}  // namespace
}  // namespace simcuda
