// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Local memory of kernels (shim/hooks/driver_kernels.cc).

#include "shim/hooks/kernels.h"
#include "tests/shim/hooks/hook_fixture.h"

namespace gpumemshim::hooks {
namespace {

// The device holds 4 x 100 threads, and a thread has 1,024 bytes anyway.
class DriverKernels : public HookTest {
 protected:
  DriverKernels() {
    ForgetLocalMemory();
    g_driver.context = MakeHandle<CUcontext>(0xc00);
    fake::cuLaunchKernel::Answer(CUDA_SUCCESS);
  }
  ~DriverKernels() override { ForgetLocalMemory(); }

  static CUfunction Function(uint64_t number) {
    const auto handle = MakeHandle<CUfunction>(number);
    fake::cuModuleGetFunction::Answer(CUDA_SUCCESS, [handle](CUfunction* out, auto...) { *out = handle; });
    CUfunction found = nullptr;
    EXPECT_EQ(Keep([&] { return cuModuleGetFunction(&found, nullptr, "kernel"); }), CUDA_SUCCESS);
    EXPECT_EQ(found, handle);
    return found;
  }
  static void Launch(CUfunction function) {
    Keep([&] { return cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr); });
  }
};

TEST_F(DriverKernels, AKernelIsAskedOnceAndRecordedWhereItNeedsMoreThanAllBefore) {
  const CUfunction first = Function(0x1000), second = Function(0x2000), third = Function(0x3000);
  g_driver.local_of_function = 2048;
  Launch(first);
  EXPECT_EQ(Recorded(), Lines{"LocalMemory Device cuLaunchKernel device=3 size=409600 requested=2048"});
  const int questions = g_driver.questions;
  Launch(first);
  EXPECT_EQ(g_driver.questions, questions);
  g_driver.local_of_function = 1536;
  Launch(second);
  EXPECT_EQ(Recorded(), Lines{});
  g_driver.local_of_function = 4096;
  Launch(third);
  EXPECT_EQ(Recorded(), Lines{"LocalMemory Device cuLaunchKernel device=3 size=1228800 requested=4096"});
}

TEST_F(DriverKernels, WhatTheStackHasAnywayIsNotMore) {
  g_driver.local_of_function = 1024;
  Launch(Function(0x1000));
  EXPECT_EQ(Recorded(), Lines{});
}

TEST_F(DriverKernels, AContextThatIsMadeAnewBeginsAgain) {
  const CUfunction function = Function(0x1000);
  g_driver.local_of_function = 2048;
  Launch(function);
  EXPECT_EQ(Recorded().size(), 1u);
  fake::cuDevicePrimaryCtxReset_v2::Answer(CUDA_SUCCESS);
  Keep([&] { return cuDevicePrimaryCtxReset_v2(3); });
  Recorded();
  Launch(function);
  EXPECT_EQ(Recorded(), Lines{"LocalMemory Device cuLaunchKernel device=3 size=409600 requested=2048"});
}

// The driver has two sorts of handles, and is asked of those alone whose sort is known.
TEST_F(DriverKernels, HandlesThatNobodySawAreNotAskedOf) {
  const int questions = g_driver.questions;
  Launch(MakeHandle<CUfunction>(0x5000));
  EXPECT_EQ(g_driver.questions, questions);
  EXPECT_EQ(Recorded(), Lines{});
  const auto kernel = MakeHandle<CUkernel>(0x6000);
  fake::cuLibraryGetKernel::Answer(CUDA_SUCCESS, [kernel](CUkernel* out, auto...) { *out = kernel; });
  CUkernel found = nullptr;
  Keep([&] { return cuLibraryGetKernel(&found, nullptr, "kernel"); });
  g_driver.local_of_kernel = 2048;
  Launch(reinterpret_cast<CUfunction>(found));
  EXPECT_EQ(Recorded(), Lines{"LocalMemory Device cuLaunchKernel device=3 size=409600 requested=2048"});
}

TEST_F(DriverKernels, ALaunchThatFailedIsNotAskedOf) {
  fake::cuLaunchKernel::Answer(CUDA_ERROR_INVALID_VALUE);
  g_driver.local_of_function = 2048;
  Launch(Function(0x1000));
  EXPECT_EQ(Recorded(), Lines{});
}

}  // namespace
}  // namespace gpumemshim::hooks
