// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include "tests/simcuda/driver/driver_fixture.h"

namespace simcuda {
namespace {

TEST(ForcedFailureTest, TheNthAllocationFails) {
  EXPECT_EQ(RunInChild({{"SIMCUDA_FAIL_ALLOC", "2,2"}},
                       [] {
                         UsePrimaryContext();
                         CUdeviceptr pointer = 0;
                         EXPECT_EQ(cuMemAlloc(&pointer, 512), CUDA_SUCCESS);
                         EXPECT_EQ(cuMemAlloc(&pointer, 512), CUDA_ERROR_OUT_OF_MEMORY);
                         EXPECT_EQ(cuMemAllocAsync(&pointer, 512, nullptr), CUDA_ERROR_OUT_OF_MEMORY);
                         EXPECT_EQ(cuMemAlloc(&pointer, 512), CUDA_SUCCESS);
                       }),
            0);
}

TEST(ForcedFailureTest, WithTheResultAskedFor) {
  EXPECT_EQ(RunInChild({{"SIMCUDA_FAIL_ALLOC", "1"}, {"SIMCUDA_FAIL_RESULT", "700"}},
                       [] {
                         UsePrimaryContext();
                         CUdeviceptr pointer = 0;
                         EXPECT_EQ(cuMemAlloc(&pointer, 512), CUDA_ERROR_ILLEGAL_ADDRESS);
                       }),
            0);
}

TEST(WatchdogTest, EndsALoopOfLaunches) {
  EXPECT_EQ(RunInChild({{"SIMCUDA_MAX_LAUNCHES", "100"}},
                       [] {
                         UsePrimaryContext();
                         CUmodule module = nullptr;
                         CUfunction function = nullptr;
                         EXPECT_EQ(cuModuleLoadData(&module, "image"), CUDA_SUCCESS);
                         EXPECT_EQ(cuModuleGetFunction(&function, module, "kernel"), CUDA_SUCCESS);
                         EXPECT_EQ(cuLaunchKernel(function, 0, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
                                   CUDA_ERROR_INVALID_VALUE);
                         for (;;) cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr);
                       }),
            124);
}

}  // namespace
}  // namespace simcuda
