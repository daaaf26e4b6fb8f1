// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include "tests/simcuda/driver/driver_fixture.h"

namespace simcuda {
namespace {

constexpr size_t kMebibyte = 1 << 20;

TEST(DriverAllocationTest, NeedsInitAndContext) {
  EXPECT_EQ(RunInChild({},
                       [] {
                         CUdeviceptr pointer = 0;
                         EXPECT_EQ(cuMemAlloc(&pointer, 4096), CUDA_ERROR_NOT_INITIALIZED);
                         EXPECT_EQ(cuInit(0), CUDA_SUCCESS);
                         EXPECT_EQ(cuMemAlloc(&pointer, 4096), CUDA_ERROR_INVALID_CONTEXT);
                         UsePrimaryContext();
                         EXPECT_EQ(cuMemAlloc(&pointer, 0), CUDA_ERROR_INVALID_VALUE);
                         EXPECT_EQ(cuMemAlloc(&pointer, 4096), CUDA_SUCCESS);
                         EXPECT_EQ(cuMemFree(0), CUDA_SUCCESS);
                         EXPECT_EQ(cuMemFree(pointer + 1), CUDA_ERROR_INVALID_VALUE);
                         EXPECT_EQ(cuMemFree(pointer), CUDA_SUCCESS);
                       }),
            0);
}

TEST(DriverAllocationTest, MemoryInfoIncludesTheContextPerDevice) {
  EXPECT_EQ(RunInChild({{"SIMCUDA_DEVICES", "2"}, {"SIMCUDA_MEM_MB", "1000"}, {"SIMCUDA_CTX_MB", "300"}},
                       [] {
                         size_t free = 0, total = 0;
                         UsePrimaryContext(1);
                         CUdeviceptr pointer = 0;
                         EXPECT_EQ(cuMemAlloc(&pointer, 100 * kMebibyte), CUDA_SUCCESS);
                         EXPECT_EQ(cuMemGetInfo(&free, &total), CUDA_SUCCESS);
                         EXPECT_EQ(total, 1000 * kMebibyte);
                         EXPECT_EQ(free, 600 * kMebibyte);
                         EXPECT_EQ(cuMemGetInfo(nullptr, &total), CUDA_SUCCESS);
                         UsePrimaryContext(0);
                         EXPECT_EQ(cuMemGetInfo(&free, &total), CUDA_SUCCESS);
                         EXPECT_EQ(free, 700 * kMebibyte);
                         EXPECT_EQ(cuMemAlloc(&pointer, 701 * kMebibyte), CUDA_ERROR_OUT_OF_MEMORY);
                       }),
            0);
}

TEST(DriverAllocationTest, ResetOfThePrimaryContextReleasesEverything) {
  EXPECT_EQ(RunInChild({},
                       [] {
                         UsePrimaryContext();
                         CUdeviceptr pointer = 0;
                         EXPECT_EQ(cuMemAlloc(&pointer, kMebibyte), CUDA_SUCCESS);
                         EXPECT_EQ(cuDevicePrimaryCtxReset(0), CUDA_SUCCESS);
                         EXPECT_EQ(cuMemFree(pointer), CUDA_ERROR_CONTEXT_IS_DESTROYED);
                         UsePrimaryContext();
                         EXPECT_EQ(cuMemFree(pointer), CUDA_ERROR_INVALID_VALUE);
                       }),
            0);
}

TEST(DriverAllocationTest, PluralPointerQueryDoesNotFailForAStranger) {
  EXPECT_EQ(
      RunInChild(
          {},
          [] {
            UsePrimaryContext();
            int local = 0, ordinal = 7;
            unsigned type = 7;
            CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
            void* values[] = {&type, &ordinal};
            const CUdeviceptr stranger = reinterpret_cast<CUdeviceptr>(&local);
            EXPECT_EQ(cuPointerGetAttributes(2, attributes, values, stranger), CUDA_SUCCESS);
            EXPECT_EQ(type, 0u);
            EXPECT_EQ(ordinal, -2);
            EXPECT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, stranger),
                      CUDA_ERROR_INVALID_VALUE);
            CUdeviceptr pointer = 0, base = 0;
            size_t size = 0;
            EXPECT_EQ(cuMemAlloc(&pointer, 5000), CUDA_SUCCESS);
            EXPECT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer + 4999), CUDA_SUCCESS);
            EXPECT_EQ(type, static_cast<unsigned>(CU_MEMORYTYPE_DEVICE));
            EXPECT_EQ(cuMemGetAddressRange(&base, &size, pointer + 10), CUDA_SUCCESS);
            EXPECT_EQ(base, pointer);
            EXPECT_EQ(size, 5000u);
          }),
      0);
}

TEST(DriverAllocationTest, HostMemory) {
  EXPECT_EQ(RunInChild({},
                       [] {
                         UsePrimaryContext();
                         static char block[8192];
                         EXPECT_EQ(cuMemHostRegister(block, sizeof block, 0), CUDA_SUCCESS);
                         EXPECT_EQ(cuMemHostRegister(block + 100, 10, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
                         EXPECT_EQ(cuMemHostUnregister(block + 100), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
                         EXPECT_EQ(cuMemHostUnregister(block), CUDA_SUCCESS);
                         void* pinned = nullptr;
                         EXPECT_EQ(cuMemHostAlloc(&pinned, 100, 0), CUDA_SUCCESS);
                         *static_cast<int*>(pinned) = 1;
                         EXPECT_EQ(cuMemFreeHost(pinned), CUDA_SUCCESS);
                         EXPECT_EQ(cuMemFreeHost(pinned), CUDA_ERROR_INVALID_VALUE);
                       }),
            0);
}

TEST(DriverAllocationTest, VisibleDevicesHideTheOthers) {
  EXPECT_EQ(RunInChild({{"SIMCUDA_DEVICES", "4"}, {"CUDA_VISIBLE_DEVICES", "2,1"}},
                       [] {
                         int count = 0;
                         char bus[32];
                         EXPECT_EQ(cuInit(0), CUDA_SUCCESS);
                         EXPECT_EQ(cuDeviceGetCount(&count), CUDA_SUCCESS);
                         EXPECT_EQ(count, 2);
                         EXPECT_EQ(cuDeviceGetPCIBusId(bus, sizeof bus, 0), CUDA_SUCCESS);
                         EXPECT_STREQ(bus, "0000:1a:00.0");
                       }),
            0);
  EXPECT_EQ(RunInChild({{"CUDA_VISIBLE_DEVICES", ""}}, [] { EXPECT_EQ(cuInit(0), CUDA_ERROR_NO_DEVICE); }), 0);
}

}  // namespace
}  // namespace simcuda
