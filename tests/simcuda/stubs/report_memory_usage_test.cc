// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
// libsimcuda_zero.so's function in this process's global scope, with a second definition of it behind: both must see
// each report, and the simulated driver must forget a fresh CUDA block's contents.
#include <cuda.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "report_probe.h"

struct Device {
  int8_t type, index;
};
extern "C" void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void*, int64_t, uint64_t, uint64_t, Device);

namespace {

constexpr Device kCuda{1, 0}, kCpu{0, -1};
constexpr size_t kWords = 1024;

class ReportTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&context_, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
    ASSERT_EQ(cuMemAlloc(&block_, kWords * 4), CUDA_SUCCESS);
    const std::vector<int> sevens(kWords, 7);
    ASSERT_EQ(cuMemcpyHtoD(block_, sevens.data(), kWords * 4), CUDA_SUCCESS);
  }
  void TearDown() override {
    EXPECT_EQ(cuMemFree(block_), CUDA_SUCCESS);
    EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
  }
  void Report(int64_t size, Device device) {
    _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(reinterpret_cast<void*>(block_), size, 0, 0, device);
  }
  std::vector<int> Contents() {
    std::vector<int> words(kWords);
    EXPECT_EQ(cuMemcpyDtoH(words.data(), block_, kWords * 4), CUDA_SUCCESS);
    return words;
  }
  CUcontext context_ = nullptr;
  CUdeviceptr block_ = 0;
};

TEST_F(ReportTest, AllocatedCudaBlockReadsAsZeros) {
  Report(kWords * 4, kCuda);
  EXPECT_EQ(Contents(), std::vector<int>(kWords, 0));
}

TEST_F(ReportTest, FreeLeavesContents) {
  Report(-static_cast<int64_t>(kWords) * 4, kCuda);
  EXPECT_EQ(Contents(), std::vector<int>(kWords, 7));
}

TEST_F(ReportTest, OtherDevicesAreNotTouched) {
  Report(kWords * 4, kCpu);
  EXPECT_EQ(Contents(), std::vector<int>(kWords, 7));
}

TEST_F(ReportTest, IsPassedOnToTheNextDefinition) {
  const long before = report_probe_calls();
  _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(reinterpret_cast<void*>(block_), 512, 1024, 4096, kCuda);
  EXPECT_EQ(report_probe_calls(), before + 1);
  EXPECT_EQ(report_probe_last_size(), 512);
  EXPECT_EQ(report_probe_last_allocated(), 1024u);
}

}  // namespace
