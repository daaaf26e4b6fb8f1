// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
// The library is tested as a program meets it: linked by soname, called through its public names.
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <cuda.h>
#include <gtest/gtest.h>
#include <nvml.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace {

constexpr unsigned long long kMebibyte = 1 << 20;

class NvmlTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(nvmlInit_v2(), NVML_SUCCESS);
    ASSERT_EQ(nvmlDeviceGetHandleByIndex_v2(0, &device_), NVML_SUCCESS);
  }
  nvmlDevice_t device_ = nullptr;
};

// A primary context on device 0 and an allocation in it, given back at the end.
class Allocation {
 public:
  explicit Allocation(size_t bytes) {
    EXPECT_EQ(cuInit(0), CUDA_SUCCESS);
    EXPECT_EQ(cuDevicePrimaryCtxRetain(&context_, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxPushCurrent(context_), CUDA_SUCCESS);
    EXPECT_EQ(cuMemAlloc(&pointer_, bytes), CUDA_SUCCESS);
  }
  ~Allocation() {
    EXPECT_EQ(cuMemFree(pointer_), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxPopCurrent(&context_), CUDA_SUCCESS);
    EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
  }
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;

 private:
  CUcontext context_ = nullptr;
  CUdeviceptr pointer_ = 0;
};

TEST_F(NvmlTest, DeviceOutsideTheRangeIsRefused) {
  unsigned count = 0;
  ASSERT_EQ(nvmlDeviceGetCount_v2(&count), NVML_SUCCESS);
  nvmlDevice_t device;
  EXPECT_EQ(nvmlDeviceGetHandleByIndex_v2(count, &device), NVML_ERROR_INVALID_ARGUMENT);
}

TEST_F(NvmlTest, UuidAndBusIdLeadBackToTheDevice) {
  char uuid[NVML_DEVICE_UUID_BUFFER_SIZE];
  ASSERT_EQ(nvmlDeviceGetUUID(device_, uuid, sizeof(uuid)), NVML_SUCCESS);
  EXPECT_EQ(std::string(uuid).size(), std::string("GPU-00000000-0000-0000-0000-000000000000").size());
  nvmlPciInfo_t pci;
  ASSERT_EQ(nvmlDeviceGetPciInfo_v3(device_, &pci), NVML_SUCCESS);
  nvmlDevice_t found = nullptr;
  EXPECT_EQ(nvmlDeviceGetHandleByUUID(uuid, &found), NVML_SUCCESS);
  EXPECT_EQ(found, device_);
  found = nullptr;
  EXPECT_EQ(nvmlDeviceGetHandleByPciBusId_v2(pci.busId, &found), NVML_SUCCESS);
  EXPECT_EQ(found, device_);
  EXPECT_EQ(nvmlDeviceGetHandleByUUID("GPU-nobody", &found), NVML_ERROR_NOT_FOUND);
  EXPECT_EQ(nvmlDeviceGetHandleByPciBusId_v2("0000:fe:00.0", &found), NVML_ERROR_NOT_FOUND);
}

TEST_F(NvmlTest, BusIdAgreesWithTheDriver) {
  ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
  char bus_id[32];
  ASSERT_EQ(cuDeviceGetPCIBusId(bus_id, sizeof(bus_id), 0), CUDA_SUCCESS);
  nvmlDevice_t found = nullptr;
  EXPECT_EQ(nvmlDeviceGetHandleByPciBusId_v2(bus_id, &found), NVML_SUCCESS);
  EXPECT_EQ(found, device_);
}

TEST_F(NvmlTest, MemoryFollowsTheDriversAllocations) {
  const Allocation context_and_little(2 * kMebibyte);
  nvmlMemory_t before, after;
  ASSERT_EQ(nvmlDeviceGetMemoryInfo(device_, &before), NVML_SUCCESS);
  const Allocation more(64 * kMebibyte);
  ASSERT_EQ(nvmlDeviceGetMemoryInfo(device_, &after), NVML_SUCCESS);
  EXPECT_EQ(after.used - before.used, 64 * kMebibyte);
  EXPECT_EQ(after.free + after.used, after.total);
  size_t free_bytes = 0, total_bytes = 0;
  ASSERT_EQ(cuMemGetInfo(&free_bytes, &total_bytes), CUDA_SUCCESS);
  EXPECT_EQ(after.total, total_bytes);
  EXPECT_EQ(after.free, free_bytes);
}

TEST_F(NvmlTest, SecondMemoryVersionMustSayItsVersion) {
  nvmlMemory_v2_t memory{};
  EXPECT_EQ(nvmlDeviceGetMemoryInfo_v2(device_, &memory), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
  memory.version = NVML_STRUCT_VERSION(Memory, 2);
  ASSERT_EQ(nvmlDeviceGetMemoryInfo_v2(device_, &memory), NVML_SUCCESS);
  EXPECT_EQ(memory.free + memory.used + memory.reserved, memory.total);
}

TEST_F(NvmlTest, ProcessListNamesTheCallerOnceItHoldsMemory) {
  const Allocation allocation(8 * kMebibyte);
  unsigned count = 0;
  EXPECT_EQ(nvmlDeviceGetComputeRunningProcesses_v3(device_, &count, nullptr), NVML_ERROR_INSUFFICIENT_SIZE);
  ASSERT_EQ(count, 1u);
  nvmlProcessInfo_t info{};
  ASSERT_EQ(nvmlDeviceGetComputeRunningProcesses_v3(device_, &count, &info), NVML_SUCCESS);
  EXPECT_EQ(info.pid, static_cast<unsigned>(getpid()));
  nvmlMemory_t memory;
  ASSERT_EQ(nvmlDeviceGetMemoryInfo(device_, &memory), NVML_SUCCESS);
  EXPECT_EQ(info.usedGpuMemory, memory.used);
  nvmlProcessInfo_v1_t first_version{};
  ASSERT_EQ(nvmlDeviceGetComputeRunningProcesses(device_, &count, &first_version), NVML_SUCCESS);
  EXPECT_EQ(first_version.usedGpuMemory, memory.used);
  EXPECT_EQ(nvmlDeviceGetGraphicsRunningProcesses_v3(device_, &count, nullptr), NVML_SUCCESS);
  EXPECT_EQ(count, 0u);
}

TEST_F(NvmlTest, WhatADeviceCannotTellIsNotSupported) {
  unsigned long long joules = 0;
  EXPECT_EQ(nvmlDeviceGetTotalEnergyConsumption(device_, &joules), NVML_ERROR_NOT_SUPPORTED);
  EXPECT_STREQ(nvmlErrorString(NVML_ERROR_NOT_SUPPORTED), "Not Supported");
}

TEST_F(NvmlTest, TextThatDoesNotFitIsNotWritten) {
  char small[4] = "abc";
  EXPECT_EQ(nvmlDeviceGetName(device_, small, sizeof(small)), NVML_ERROR_INSUFFICIENT_SIZE);
  EXPECT_STREQ(small, "abc");
}

}  // namespace
