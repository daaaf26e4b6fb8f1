// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

// Modules and libraries (shim/hooks/driver_modules.cc).

#include "shim/hooks/capture.h"
#include "tests/shim/hooks/hook_fixture.h"

namespace gpumemshim::hooks {
namespace {

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
