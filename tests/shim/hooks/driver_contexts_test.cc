// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Contexts and what they take (shim/hooks/driver_contexts.cc).

#include "shim/hooks/capture.h"
#include "shim/hooks/device.h"
#include "tests/shim/hooks/hook_fixture.h"

namespace gpumemshim::hooks {
namespace {

const auto kContext = MakeHandle<CUcontext>(0xc0);
constexpr uint64_t kNumber = 0xc0;

// One context of the program's own, that takes 100 bytes and is the current one afterwards.
class DriverContexts : public HookTest {
 protected:
  ~DriverContexts() override { RemoveOwnContext(kNumber); }

  static void Create(CUdevice device) {
    fake::cuCtxCreate_v2::Answer(CUDA_SUCCESS, [](CUcontext* out, auto...) {
      *out = kContext;
      g_driver.free_bytes -= 100;
    });
    CUcontext context = nullptr;
    EXPECT_EQ(Keep([&] { return cuCtxCreate_v2(&context, 0, device); }), CUDA_SUCCESS);
    EXPECT_EQ(context, kContext);
  }
};

TEST_F(DriverContexts, ASizeIsMeasuredWhereTheDevicesMemoryIsInSight) {
  Create(3);
  EXPECT_EQ(Recorded(), Lines{"ContextCreate Device cuCtxCreate_v2 device=3 size=100 handle=0xc0"});
  EXPECT_TRUE(IsOwnContext(kNumber));
  RemoveOwnContext(kNumber);
  Create(4);  // the current context is of device 3
  EXPECT_EQ(Recorded(), Lines{"ContextCreate Device cuCtxCreate_v2 device=4 handle=0xc0"});
}

TEST_F(DriverContexts, EveryFormOfCreate) {
  const auto effect = [](CUcontext* out, auto...) { *out = kContext; };
  fake::cuCtxCreate::Answer(CUDA_SUCCESS, effect);
  fake::cuCtxCreate_v3::Answer(CUDA_SUCCESS, effect);
  fake::cuCtxCreate_v4::Answer(CUDA_SUCCESS, effect);
  CUcontext context = nullptr;
  Keep([&] { return cuCtxCreate(&context, 0, 3); });
  Keep([&] { return cuCtxCreate_v3(&context, nullptr, 0, 0, 3); });
  EXPECT_EQ(Recorded(), Lines{"ContextCreate Device cuCtxCreate_v3 device=3 handle=0xc0"});
  EXPECT_EQ(fake::cuCtxCreate_v3::before, Lines{"ContextCreate Device cuCtxCreate device=3 handle=0xc0"});
  Keep([&] { return cuCtxCreate_v4(&context, nullptr, 0, 3); });
  EXPECT_EQ(Recorded(), Lines{"ContextCreate Device cuCtxCreate_v4 device=3 handle=0xc0"});
  RemoveOwnContext(kNumber);
  RemoveOwnContext(kNumber);
}

TEST_F(DriverContexts, AContextThatCouldNotBeMadeIsNoEventAndNotOurs) {
  fake::cuCtxCreate_v2::Answer(CUDA_ERROR_OUT_OF_MEMORY);
  CUcontext context = kContext;
  EXPECT_EQ(Keep([&] { return cuCtxCreate_v2(&context, 0, 3); }), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(Recorded(), Lines{});
  EXPECT_FALSE(IsOwnContext(kNumber));
}

TEST_F(DriverContexts, ThePrimaryContextIsMadeByItsFirstRetain) {
  fake::cuDevicePrimaryCtxRetain::Answer(CUDA_SUCCESS, [](CUcontext*, CUdevice) {
    g_driver.free_bytes -= 100;
    g_driver.primary_is_active = true;
  });
  CUcontext context = nullptr;
  EXPECT_EQ(Keep([&] { return cuDevicePrimaryCtxRetain(&context, 3); }), CUDA_SUCCESS);
  EXPECT_EQ(Recorded(), Lines{"ContextCreate Device cuDevicePrimaryCtxRetain device=3 size=100"});
  EXPECT_EQ(Keep([&] { return cuDevicePrimaryCtxRetain(&context, 3); }), CUDA_SUCCESS);
  EXPECT_EQ(Recorded(), Lines{});
}

TEST_F(DriverContexts, ThePrimaryContextIsMadeInsideOfOtherCalls) {
  fake::cuDevicePrimaryCtxRetain::Answer(CUDA_SUCCESS);
  t_depth = 1;
  cuDevicePrimaryCtxRetain(nullptr, 3);
  t_depth = 0;
  EXPECT_EQ(Recorded(), Lines{"ContextCreate Device cuDevicePrimaryCtxRetain device=3"});
}

TEST_F(DriverContexts, ThePrimaryContextEndsWithItsLastRelease) {
  g_driver.primary_is_active = true;
  fake::cuDevicePrimaryCtxRelease_v2::Answer(CUDA_SUCCESS);
  Keep([] { return cuDevicePrimaryCtxRelease_v2(3); });
  EXPECT_EQ(Recorded(), Lines{});
  fake::cuDevicePrimaryCtxRelease_v2::Answer(CUDA_SUCCESS, [](CUdevice) { g_driver.primary_is_active = false; });
  Keep([] { return cuDevicePrimaryCtxRelease_v2(3); });
  EXPECT_EQ(Recorded(), Lines{"ContextDestroy Device cuDevicePrimaryCtxRelease_v2 device=3"});
  Keep([] { return cuDevicePrimaryCtxRelease_v2(3); });
  EXPECT_EQ(Recorded(), Lines{});
}

TEST_F(DriverContexts, AReleaseThatFailsIsNoEvent) {
  g_driver.primary_is_active = true;
  fake::cuDevicePrimaryCtxRelease::Answer(CUDA_ERROR_INVALID_CONTEXT,
                                          [](CUdevice) { g_driver.primary_is_active = false; });
  EXPECT_EQ(Keep([] { return cuDevicePrimaryCtxRelease(3); }), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(Recorded(), Lines{});
}

TEST_F(DriverContexts, Reset) {
  fake::cuDevicePrimaryCtxReset::Answer(CUDA_SUCCESS);
  fake::cuDevicePrimaryCtxReset_v2::Answer(CUDA_ERROR_UNKNOWN);
  Keep([] { return cuDevicePrimaryCtxReset(2); });
  EXPECT_EQ(fake::cuDevicePrimaryCtxReset::before, Lines{"DeviceReset Device cuDevicePrimaryCtxReset device=2"});
  EXPECT_EQ(Keep([] { return cuDevicePrimaryCtxReset_v2(2); }), CUDA_ERROR_UNKNOWN);
  EXPECT_EQ(Recorded(), Lines{"FreeFailed Device cuDevicePrimaryCtxReset_v2 device=2 result=999"});
}

TEST_F(DriverContexts, DestroyIsRecordedBeforeTheCall) {
  AddOwnContext(kNumber);
  fake::cuCtxDestroy::Answer(CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(Keep([] { return cuCtxDestroy(kContext); }), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(fake::cuCtxDestroy::before, Lines{"ContextDestroy Device cuCtxDestroy handle=0xc0"});
  EXPECT_EQ(Recorded(), Lines{"FreeFailed Device cuCtxDestroy handle=0xc0 result=201"});
  EXPECT_TRUE(IsOwnContext(kNumber));
  fake::cuCtxDestroy_v2::Answer(CUDA_SUCCESS);
  EXPECT_EQ(Keep([] { return cuCtxDestroy_v2(kContext); }), CUDA_SUCCESS);
  EXPECT_EQ(fake::cuCtxDestroy_v2::before, Lines{"ContextDestroy Device cuCtxDestroy_v2 handle=0xc0"});
  EXPECT_FALSE(IsOwnContext(kNumber));
}

TEST_F(DriverContexts, TheLastDetachEndsIt) {
  AddOwnContext(kNumber);
  fake::cuCtxAttach::Answer(CUDA_SUCCESS, [](CUcontext* out, unsigned int) { *out = kContext; });
  fake::cuCtxDetach::Answer(CUDA_SUCCESS);
  CUcontext context = nullptr;
  Keep([&] { return cuCtxAttach(&context, 0); });
  Keep([&] { return cuCtxDetach(context); });
  EXPECT_EQ(fake::cuCtxDetach::before, Lines{});
  EXPECT_EQ(Recorded(), Lines{});
  Keep([&] { return cuCtxDetach(context); });
  EXPECT_EQ(fake::cuCtxDetach::before, Lines{"ContextDestroy Device cuCtxDetach handle=0xc0"});
  EXPECT_FALSE(IsOwnContext(kNumber));
}

TEST_F(DriverContexts, ADetachThatFailsLeavesItsUser) {
  AddOwnContext(kNumber);
  AddUser(kNumber);
  fake::cuCtxDetach::Answer(CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(Keep([] { return cuCtxDetach(kContext); }), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_TRUE(TakeUser(kNumber));
}

TEST_F(DriverContexts, ALimitIsAnEventWhereItTakesMemory) {
  fake::cuCtxSetLimit::Answer(CUDA_SUCCESS);
  Keep([] { return cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096); });
  EXPECT_EQ(Recorded(), Lines{});
  fake::cuCtxSetLimit::Answer(CUDA_SUCCESS, [](CUlimit, size_t) { g_driver.free_bytes -= 100; });
  Keep([] { return cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096); });
  EXPECT_EQ(Recorded(), Lines{"ContextGrowth Device cuCtxSetLimit device=3 size=100"});
}

TEST_F(DriverContexts, AGreenContextIsNoneOfTheProgramsOwn) {
  fake::cuGreenCtxCreate::Answer(CUDA_SUCCESS, [](CUgreenCtx* out, auto...) { *out = MakeHandle<CUgreenCtx>(0xc1); });
  fake::cuGreenCtxDestroy::Answer(CUDA_SUCCESS);
  CUgreenCtx context = nullptr;
  Keep([&] { return cuGreenCtxCreate(&context, nullptr, 3, 1); });
  EXPECT_EQ(Recorded(), Lines{"ContextCreate Device cuGreenCtxCreate device=3 handle=0xc1"});
  EXPECT_FALSE(IsOwnContext(0xc1));
  Keep([&] { return cuGreenCtxDestroy(context); });
  EXPECT_EQ(fake::cuGreenCtxDestroy::before, Lines{"ContextDestroy Device cuGreenCtxDestroy handle=0xc1"});
}

// Modules and libraries.

using DriverModules = HookTest;

const auto kModule = MakeHandle<CUmodule>(0xd0);
const auto kLibrary = MakeHandle<CUlibrary>(0xd1);

// Each takes 100 bytes.
const auto kLoadsModule = [](CUmodule* out, auto...) {
  *out = kModule;
  g_driver.free_bytes -= 100;
};
const auto kLoadsLibrary = [](CUlibrary* out, auto...) {
  *out = kLibrary;
  g_driver.free_bytes -= 100;
};

TEST_F(DriverModules, Modules) {
  fake::cuModuleLoad::Answer(CUDA_SUCCESS, kLoadsModule);
  fake::cuModuleLoadData::Answer(CUDA_SUCCESS, kLoadsModule);
  fake::cuModuleLoadDataEx::Answer(CUDA_SUCCESS, kLoadsModule);
  fake::cuModuleLoadFatBinary::Answer(CUDA_SUCCESS, kLoadsModule);
  CUmodule module = nullptr;
  EXPECT_EQ(Keep([&] { return cuModuleLoad(&module, "a.cubin"); }), CUDA_SUCCESS);
  EXPECT_EQ(Recorded(), Lines{"ModuleLoad Device cuModuleLoad device=3 size=100 handle=0xd0"});
  Keep([&] { return cuModuleLoadData(&module, nullptr); });
  EXPECT_EQ(Recorded(), Lines{"ModuleLoad Device cuModuleLoadData device=3 size=100 handle=0xd0"});
  Keep([&] { return cuModuleLoadDataEx(&module, nullptr, 0, nullptr, nullptr); });
  EXPECT_EQ(Recorded(), Lines{"ModuleLoad Device cuModuleLoadDataEx device=3 size=100 handle=0xd0"});
  Keep([&] { return cuModuleLoadFatBinary(&module, nullptr); });
  EXPECT_EQ(Recorded(), Lines{"ModuleLoad Device cuModuleLoadFatBinary device=3 size=100 handle=0xd0"});
}

TEST_F(DriverModules, Libraries) {
  fake::cuLibraryLoadData::Answer(CUDA_SUCCESS, kLoadsLibrary);
  fake::cuLibraryLoadFromFile::Answer(CUDA_SUCCESS, kLoadsLibrary);
  fake::cuLibraryUnload::Answer(CUDA_SUCCESS);
  CUlibrary library = nullptr;
  Keep([&] { return cuLibraryLoadData(&library, nullptr, nullptr, nullptr, 0, nullptr, nullptr, 0); });
  EXPECT_EQ(Recorded(), Lines{"ModuleLoad Device cuLibraryLoadData device=3 size=100 handle=0xd1"});
  Keep([&] { return cuLibraryLoadFromFile(&library, "a.cubin", nullptr, nullptr, 0, nullptr, nullptr, 0); });
  EXPECT_EQ(Recorded(), Lines{"ModuleLoad Device cuLibraryLoadFromFile device=3 size=100 handle=0xd1"});
  Keep([&] { return cuLibraryUnload(library); });
  EXPECT_EQ(Recorded(), Lines{"ModuleUnload Device cuLibraryUnload device=3 handle=0xd1"});
}

TEST_F(DriverModules, WhatCouldNotBeLoadedOrUnloadedIsNoEvent) {
  fake::cuModuleLoadData::Answer(CUDA_ERROR_NO_BINARY_FOR_GPU);
  fake::cuModuleUnload::Answer(CUDA_ERROR_INVALID_HANDLE);
  CUmodule module = nullptr;
  EXPECT_EQ(Keep([&] { return cuModuleLoadData(&module, nullptr); }), CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_EQ(Keep([] { return cuModuleUnload(kModule); }), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(Recorded(), Lines{});
}

TEST_F(DriverModules, NothingIsMeasuredInACaptureOrWithoutAContext) {
  fake::cuModuleLoad::Answer(CUDA_SUCCESS, kLoadsModule);
  capture::g_active.store(1);
  CUmodule module = nullptr;
  Keep([&] { return cuModuleLoad(&module, "a.cubin"); });
  EXPECT_EQ(Recorded(), Lines{"ModuleLoad Device cuModuleLoad device=3 handle=0xd0"});
  capture::g_active.store(0);
  g_driver.result = CUDA_ERROR_INVALID_CONTEXT;
  Keep([&] { return cuModuleLoad(&module, "a.cubin"); });
  EXPECT_EQ(Recorded(), Lines{"ModuleLoad Device cuModuleLoad handle=0xd0"});
}

// cudaMalloc makes the context and with it loads modules.
TEST_F(DriverModules, InsideOfAnotherHookToo) {
  fake::cuModuleUnload::Answer(CUDA_SUCCESS);
  t_depth = 1;
  EXPECT_EQ(cuModuleUnload(kModule), CUDA_SUCCESS);
  t_depth = 0;
  EXPECT_EQ(Recorded(), Lines{"ModuleUnload Device cuModuleUnload device=3 handle=0xd0"});
}

}  // namespace

}  // namespace gpumemshim::hooks
