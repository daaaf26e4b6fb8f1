// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A device that gives more memory than it has, to see how much a program wants.
#include "tests/simcuda/driver/memory_fixture.h"

namespace simcuda {
namespace {

constexpr size_t kGibibyte = 1 << 30;

Settings Small(const char* overcommit) {
  return {{"SIMCUDA_MEM_MB", "1024"}, {"SIMCUDA_CTX_MB", "24"}, {"SIMCUDA_OVERCOMMIT", overcommit}};
}

size_t TotalBytes() {
  size_t free_bytes = 0, total_bytes = 0;
  EXPECT_EQ(cuMemGetInfo(&free_bytes, &total_bytes), CUDA_SUCCESS);
  return total_bytes;
}

TEST(OvercommitTest, GivesMoreThanItHasAndStatesItsSize) {
  EXPECT_EQ(RunInChild(Small("1"),
                       [] {
                         UsePrimaryContext();
                         EXPECT_EQ(FreeBytes(), 1000 * kMebibyte);
                         CUdeviceptr large = 0, whole = 0;
                         ASSERT_EQ(cuMemAlloc(&whole, 1000 * kMebibyte), CUDA_SUCCESS);
                         EXPECT_EQ(FreeBytes(), 0u);
                         ASSERT_EQ(cuMemAlloc(&large, 100 * kGibibyte), CUDA_SUCCESS);
                         EXPECT_EQ(FreeBytes(), 0u);
                         EXPECT_EQ(TotalBytes(), kGibibyte);
                         size_t stated = 0;
                         EXPECT_EQ(cuDeviceTotalMem(&stated, 0), CUDA_SUCCESS);
                         EXPECT_EQ(stated, kGibibyte);
                         EXPECT_EQ(cuMemFree(large), CUDA_SUCCESS);
                         EXPECT_EQ(FreeBytes(), 0u);
                         EXPECT_EQ(cuMemFree(whole), CUDA_SUCCESS);
                         EXPECT_EQ(FreeBytes(), 1000 * kMebibyte);
                       }),
            0);
}

TEST(OvercommitTest, AlsoOfPhysicalMemoryAndPools) {
  EXPECT_EQ(RunInChild(Small("1"),
                       [] {
                         UsePrimaryContext();
                         CreateMemory(3 * kGibibyte);
                         CUdeviceptr pointer = 0;
                         EXPECT_EQ(cuMemAllocAsync(&pointer, 3 * kGibibyte, nullptr), CUDA_SUCCESS);
                         EXPECT_EQ(FreeBytes(), 0u);
                       }),
            0);
}

// Contents are there as far as a program looks at them.
TEST(OvercommitTest, WhatIsBeyondItsSizeIsMemory) {
  EXPECT_EQ(RunInChild(Small("1"),
                       [] {
                         UsePrimaryContext();
                         CUdeviceptr pointer = 0;
                         ASSERT_EQ(cuMemAlloc(&pointer, 64 * kGibibyte), CUDA_SUCCESS);
                         const int wrote = 42;
                         int read = 0;
                         const CUdeviceptr last = pointer + 64 * kGibibyte - sizeof wrote;
                         EXPECT_EQ(cuMemcpyHtoD(last, &wrote, sizeof wrote), CUDA_SUCCESS);
                         EXPECT_EQ(cuMemcpyDtoH(&read, last, sizeof read), CUDA_SUCCESS);
                         EXPECT_EQ(read, 42);
                       }),
            0);
}

TEST(OvercommitTest, ItEndsSomewhere) {
  EXPECT_EQ(RunInChild(Small("1"),
                       [] {
                         UsePrimaryContext();
                         CUdeviceptr pointer = 0;
                         EXPECT_EQ(cuMemAlloc(&pointer, size_t{1} << 60), CUDA_ERROR_OUT_OF_MEMORY);
                         EXPECT_EQ(FreeBytes(), 1000 * kMebibyte);
                       }),
            0);
}

TEST(OvercommitTest, WithoutItTheSizeIsTheEnd) {
  EXPECT_EQ(RunInChild(Small("0"),
                       [] {
                         UsePrimaryContext();
                         CUdeviceptr pointer = 0;
                         EXPECT_EQ(cuMemAlloc(&pointer, 1001 * kMebibyte), CUDA_ERROR_OUT_OF_MEMORY);
                         EXPECT_EQ(cuMemAlloc(&pointer, 1000 * kMebibyte), CUDA_SUCCESS);
                       }),
            0);
}

// A failure that was asked for still comes.
TEST(OvercommitTest, InjectedFailuresFail) {
  Settings settings = Small("1");
  settings.emplace_back("SIMCUDA_FAIL_ALLOC", "1");
  EXPECT_EQ(RunInChild(settings,
                       [] {
                         UsePrimaryContext();
                         CUdeviceptr pointer = 0;
                         EXPECT_EQ(cuMemAlloc(&pointer, 1), CUDA_ERROR_OUT_OF_MEMORY);
                         EXPECT_EQ(cuMemAlloc(&pointer, 1), CUDA_SUCCESS);
                       }),
            0);
}

int DeviceAttribute(CUdevice_attribute attribute) {
  int value = 0;
  EXPECT_EQ(cuDeviceGetAttribute(&value, attribute, 0), CUDA_SUCCESS);
  return value;
}

// Libraries choose kernels by it.
TEST(SharedMemoryTest, IsThatOfTheDevicePlanned) {
  EXPECT_EQ(RunInChild({{"SIMCUDA_SMEM", "101376"}},
                       [] {
                         UsePrimaryContext();
                         EXPECT_EQ(DeviceAttribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN), 101376);
                         EXPECT_EQ(DeviceAttribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR), 102400);
                         EXPECT_EQ(DeviceAttribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK), 49152);
                         CUmodule module = nullptr;
                         CUfunction function = nullptr;
                         ASSERT_EQ(cuModuleLoadData(&module, "image"), CUDA_SUCCESS);
                         ASSERT_EQ(cuModuleGetFunction(&function, module, "kernel"), CUDA_SUCCESS);
                         EXPECT_EQ(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 101376, nullptr, nullptr, nullptr),
                                   CUDA_SUCCESS);
                         EXPECT_EQ(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 101377, nullptr, nullptr, nullptr),
                                   CUDA_ERROR_INVALID_VALUE);
                       }),
            0);
}

TEST(MostReadsTest, AProgramThatReadsForEverIsEnded) {
  const auto read = [](int times) {
    UsePrimaryContext();
    CUdeviceptr pointer = 0;
    ASSERT_EQ(cuMemAlloc(&pointer, 512), CUDA_SUCCESS);
    int value = 0;
    for (int i = 0; i < times; ++i) {
      EXPECT_EQ(cuMemcpyHtoD(pointer, &value, sizeof value), CUDA_SUCCESS);  // writes do not count
      EXPECT_EQ(cuMemcpyDtoH(&value, pointer, sizeof value), CUDA_SUCCESS);
    }
  };
  EXPECT_EQ(RunInChild({{"SIMCUDA_MAX_READS", "10"}}, [&] { read(10); }), 0);
  EXPECT_EQ(RunInChild({{"SIMCUDA_MAX_READS", "10"}}, [&] { read(11); }), 124);
  EXPECT_EQ(RunInChild({}, [&] { read(1000); }), 0);
}

}  // namespace
}  // namespace simcuda
