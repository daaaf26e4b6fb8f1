// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What a real driver answers, see cuGetProcAddress in NVIDIA's documentation. None of it needs cuInit.
#include <dlfcn.h>

#include "tests/simcuda/driver/driver_fixture.h"

namespace simcuda {
namespace {

struct Answer {
  CUresult result;
  void* function;
  CUdriverProcAddressQueryResult status;
};

Answer Ask(const char* name, int version, cuuint64_t flags = 0) {
  Answer answer{CUDA_SUCCESS, reinterpret_cast<void*>(1), CU_GET_PROC_ADDRESS_SUCCESS};
  answer.result = cuGetProcAddress_v2(name, &answer.function, version, flags, &answer.status);
  return answer;
}

void* Export(const char* name) {
  void* const address = ::dlsym(RTLD_DEFAULT, name);
  EXPECT_NE(address, nullptr) << name;
  return address;
}

TEST(ProcAddressTest, VersionChoosesTheExport) {
  EXPECT_EQ(Ask("cuMemAlloc", 2000).function, Export("cuMemAlloc"));
  EXPECT_EQ(Ask("cuMemAlloc", 3010).function, Export("cuMemAlloc"));
  EXPECT_EQ(Ask("cuMemAlloc", 3020).function, Export("cuMemAlloc_v2"));
  EXPECT_EQ(Ask("cuMemAlloc", 99999).function, Export("cuMemAlloc_v2"));
  EXPECT_EQ(Ask("cuCtxCreate", 12050).function, Export("cuCtxCreate_v4"));
  EXPECT_EQ(Ask("cuDevicePrimaryCtxReset", 7000).function, Export("cuDevicePrimaryCtxReset"));
  EXPECT_EQ(Ask("cuDevicePrimaryCtxReset", 11000).function, Export("cuDevicePrimaryCtxReset_v2"));
  EXPECT_EQ(Ask("cuGetProcAddress", 11030).function, Export("cuGetProcAddress"));
  EXPECT_EQ(Ask("cuGetProcAddress", 12000).function, Export("cuGetProcAddress_v2"));
}

TEST(ProcAddressTest, FlagsChooseThePerThreadForm) {
  EXPECT_EQ(Ask("cuMemAllocAsync", 12000, 1).function, Export("cuMemAllocAsync"));
  EXPECT_EQ(Ask("cuMemAllocAsync", 12000, 2).function, Export("cuMemAllocAsync_ptsz"));
  EXPECT_EQ(Ask("cuMemAllocAsync", 12000, 3).function, Export("cuMemAllocAsync_ptsz"));
  EXPECT_EQ(Ask("cuMemcpyHtoD", 12000, 2).function, Export("cuMemcpyHtoD_v2_ptds"));
  EXPECT_EQ(Ask("cuMemcpyHtoD", 6050, 2).function, Export("cuMemcpyHtoD_v2"));
  EXPECT_EQ(Ask("cuMemAlloc", 12000, 2).function, Export("cuMemAlloc_v2"));
  EXPECT_EQ(Ask("cuMemAlloc", 12000, 4).result, CUDA_ERROR_INVALID_VALUE);
}

TEST(ProcAddressTest, UnknownAndTooNewAreSuccessesWithAStatus) {
  const Answer unknown = Ask("cuNothing", 12000);
  EXPECT_EQ(unknown.result, CUDA_SUCCESS);
  EXPECT_EQ(unknown.function, nullptr);
  EXPECT_EQ(unknown.status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  const Answer too_new = Ask("cuMemAllocAsync", 11010);
  EXPECT_EQ(too_new.result, CUDA_SUCCESS);
  EXPECT_EQ(too_new.function, nullptr);
  EXPECT_EQ(too_new.status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  EXPECT_EQ(Ask("cuMemAlloc_v2", 12000).status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  EXPECT_EQ(Ask("", 0).status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
}

TEST(ProcAddressTest, FirstFormReturnsNotFoundAndLeavesThePointer) {
  using FirstForm = CUresult (*)(const char*, void**, int, cuuint64_t);
  const auto first = reinterpret_cast<FirstForm>(Export("cuGetProcAddress"));
  void* function = reinterpret_cast<void*>(1);
  EXPECT_EQ(first("cuNothing", &function, 12000, 0), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(function, reinterpret_cast<void*>(1));
  EXPECT_EQ(first("cuMemFree", &function, 12000, 0), CUDA_SUCCESS);
  EXPECT_EQ(function, Export("cuMemFree_v2"));
}

TEST(ProcAddressTest, StubsExistAndSayNotSupported) {
  EXPECT_EQ(RunInChild({},
                       [] {  // a stub reads the settings
                         using AnyFunction = CUresult (*)(void*, void*, void*, void*);
                         const auto stub = reinterpret_cast<AnyFunction>(Export("cuImportExternalSemaphore"));
                         EXPECT_EQ(stub(nullptr, nullptr, nullptr, nullptr), CUDA_ERROR_NOT_SUPPORTED);
                       }),
            0);
}

}  // namespace
}  // namespace simcuda
