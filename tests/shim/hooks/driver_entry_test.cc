// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

// cuInit and cuGetProcAddress (shim/hooks/driver_entry.cc).

#include "tests/shim/hooks/hook_fixture.h"

namespace gpumemshim::hooks {
namespace {

using DriverEntry = HookTest;

void* const kDriver = reinterpret_cast<void*>(0x100);   // what the resolver finds
void* const kWrapper = reinterpret_cast<void*>(0x200);  // ours
constexpr auto kFound = CU_GET_PROC_ADDRESS_SUCCESS;

const auto kFindsDriver = [](const char*, void** out, auto...) {
  if (out != nullptr) *out = kDriver;
};

void* Resolve(const char* symbol, CUresult expected = CUDA_SUCCESS) {
  void* function = nullptr;
  CUdriverProcAddressQueryResult status = kFound;
  EXPECT_EQ(Keep([&] { return cuGetProcAddress_v2(symbol, &function, 13000, 0, &status); }), expected);
  return function;
}

TEST_F(DriverEntry, InitStartsTheSessionWhereItSucceeds) {
  fake::cuInit::Answer(CUDA_ERROR_NO_DEVICE);
  EXPECT_EQ(Keep([] { return cuInit(0); }), CUDA_ERROR_NO_DEVICE);
  EXPECT_EQ(g_around.starts_at_init, 0);
  fake::cuInit::Answer(CUDA_SUCCESS);
  EXPECT_EQ(Keep([] { return cuInit(0); }), CUDA_SUCCESS);
  EXPECT_EQ(g_around.starts_at_init, 1);
  EXPECT_EQ(Recorded(), Lines{});
}

TEST_F(DriverEntry, AFunctionThatWeWrapIsExchanged) {
  fake::cuGetProcAddress_v2::Answer(CUDA_SUCCESS, kFindsDriver);
  g_around.wrappers[kDriver] = kWrapper;
  EXPECT_EQ(Resolve("cuMemAlloc"), kWrapper);
  fake::cuGetProcAddress::Answer(CUDA_SUCCESS, kFindsDriver);
  void* function = nullptr;
  EXPECT_EQ(Keep([&] { return cuGetProcAddress("cuMemAlloc", &function, 11000, 0); }), CUDA_SUCCESS);
  EXPECT_EQ(function, kWrapper);
}

TEST_F(DriverEntry, OthersStayAsTheyAre) {
  fake::cuGetProcAddress_v2::Answer(CUDA_SUCCESS, kFindsDriver);
  EXPECT_EQ(Resolve("cuMemcpyHtoD"), kDriver);
  EXPECT_EQ(g_driver.questions, 0);
}

// The driver itself is asked what it has for the name, so that the interposer's function can be told.
TEST_F(DriverEntry, AnInterposersFunctionIsWrappedByWhatTheDriverHas) {
  void* const interposers = reinterpret_cast<void*>(0x300);
  fake::cuGetProcAddress_v2::Answer(CUDA_SUCCESS, [=](const char*, void** out, auto...) { *out = interposers; });
  g_driver.functions["cuMemFree_v2"] = kDriver;
  g_around.substitutes[kDriver] = kWrapper;
  EXPECT_EQ(Resolve("cuMemFree_v2"), kWrapper);
  g_driver.result = CUDA_ERROR_NOT_FOUND;
  EXPECT_EQ(Resolve("cuMemFree_v2"), interposers);
}

TEST_F(DriverEntry, WhatIsNotFoundStaysUnfound) {
  g_around.wrappers[nullptr] = kWrapper;
  fake::cuGetProcAddress_v2::Answer(CUDA_SUCCESS);
  EXPECT_EQ(Resolve("cuMemAlloc"), nullptr);
  g_around.wrappers[kDriver] = kWrapper;
  fake::cuGetProcAddress_v2::Answer(CUDA_ERROR_NOT_FOUND, kFindsDriver);
  EXPECT_EQ(Resolve("cuMemAlloc", CUDA_ERROR_NOT_FOUND), kDriver);
  fake::cuGetProcAddress_v2::Answer(CUDA_SUCCESS, kFindsDriver);
  EXPECT_EQ(Keep([] { return cuGetProcAddress_v2("cuMemAlloc", nullptr, 13000, 0, nullptr); }), CUDA_SUCCESS);
}

}  // namespace
}  // namespace gpumemshim::hooks
