// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Memory that no call states: contexts, their limits, green contexts, loaded code.
#include "tests/simcuda/driver/memory_fixture.h"

namespace simcuda {
namespace {

using testing::ElementsAre;

const Settings kSizes = {{"SIMCUDA_CTX_MB", "100"}, {"SIMCUDA_GREEN_CTX_MB", "10"}, {"SIMCUDA_MODULE_KB", "6144"}};
constexpr size_t kModule = 6 * kMebibyte;

void LoadCode() {
  UsePrimaryContext();
  const size_t free_before = FreeBytes();
  CUmodule module = nullptr;
  CUlibrary library = nullptr;
  CUkernel kernel = nullptr;
  CUfunction function = nullptr;
  ASSERT_EQ(cuModuleLoadData(&module, "image"), CUDA_SUCCESS);
  EXPECT_EQ(FreeBytes(), free_before - kModule);
  ASSERT_EQ(cuLibraryLoadData(&library, "image", nullptr, nullptr, 0, nullptr, nullptr, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuLibraryGetKernel(&kernel, library, "kernel"), CUDA_SUCCESS);
  EXPECT_EQ(FreeBytes(), free_before - kModule);  // nothing of it is used yet
  ASSERT_EQ(cuKernelGetFunction(&function, kernel), CUDA_SUCCESS);
  ASSERT_EQ(cuKernelGetFunction(&function, kernel), CUDA_SUCCESS);
  EXPECT_EQ(FreeBytes(), free_before - 2 * kModule);
  EXPECT_EQ(cuModuleUnload(module), CUDA_SUCCESS);
  EXPECT_EQ(FreeBytes(), free_before - kModule);
  CUcontext other = nullptr;
  ASSERT_EQ(cuCtxCreate(&other, nullptr, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuKernelGetFunction(&function, kernel), CUDA_SUCCESS);  // once more for another context
  EXPECT_EQ(FreeBytes(), free_before - 2 * kModule - 100 * kMebibyte);
  EXPECT_EQ(cuCtxDestroy(other), CUDA_SUCCESS);
  UsePrimaryContext();
  EXPECT_EQ(FreeBytes(), free_before - kModule);
  EXPECT_EQ(cuLibraryUnload(library), CUDA_SUCCESS);
  EXPECT_EQ(FreeBytes(), free_before);
}

TEST(ResidualTest, CodeTakesMemoryInEachContextThatUsesIt) {
  EXPECT_THAT(KindsOf("code", LoadCode, kSizes), ElementsAre("module_load", "module_load", "module_unload",
                                                             "module_load", "module_unload", "module_unload"));
}

TEST(ResidualTest, CodeThatDoesNotFitIsAnError) {
  EXPECT_EQ(RunInChild({{"SIMCUDA_MEM_MB", "104"}, {"SIMCUDA_CTX_MB", "100"}, {"SIMCUDA_MODULE_KB", "6144"}},
                       [] {
                         UsePrimaryContext();
                         CUmodule module = nullptr;
                         EXPECT_EQ(cuModuleLoadData(&module, "image"), CUDA_ERROR_OUT_OF_MEMORY);
                       }),
            0);
}

constexpr char kPtx[] = R"(// comment with .entry no()
.version 8.0
.target sm_90
.visible .entry small() { .local .align 4 .b8 __local_depot0[2048]; ret; }
.visible .entry large(.param .u64 large_param_0) {
  .local .align 16 .b8 __local_depot1[4096];  /* .local .b8 not[9]; */
  .reg .b32 %r<2>;
  ld.local.u32 %r1, [__local_depot1];
  ret;
}
.visible .entry none() { ret; })";

CUresult LaunchKernel(CUmodule module, const char* name) {
  CUfunction function = nullptr;
  EXPECT_EQ(cuModuleGetFunction(&function, module, name), CUDA_SUCCESS);
  return cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr);
}

// An H100 has 132 multiprocessors of 2,048 threads, and each thread 1 KiB anyway: 792 MiB for 4 KiB.
TEST(ResidualTest, TheLargestKernelsLocalMemoryStays) {
  EXPECT_EQ(RunInChild(kSizes,
                       [] {
                         UsePrimaryContext();
                         CUmodule module = nullptr;
                         ASSERT_EQ(cuModuleLoadData(&module, kPtx), CUDA_SUCCESS);
                         const size_t free_before = FreeBytes();
                         EXPECT_EQ(LaunchKernel(module, "none"), CUDA_SUCCESS);
                         EXPECT_EQ(FreeBytes(), free_before);
                         EXPECT_EQ(LaunchKernel(module, "small"), CUDA_SUCCESS);
                         EXPECT_EQ(FreeBytes(), free_before - 264 * kMebibyte);
                         EXPECT_EQ(LaunchKernel(module, "large"), CUDA_SUCCESS);
                         EXPECT_EQ(FreeBytes(), free_before - 792 * kMebibyte);
                         EXPECT_EQ(LaunchKernel(module, "small"), CUDA_SUCCESS);
                         EXPECT_EQ(FreeBytes(), free_before - 792 * kMebibyte);
                         // A stack of that size takes nothing more.
                         EXPECT_EQ(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096), CUDA_SUCCESS);
                         EXPECT_EQ(FreeBytes(), free_before - 792 * kMebibyte);
                       }),
            0);
}

// As an H100 does: 16 streams 8 MiB, 128 of them 70 MiB.
TEST(ResidualTest, StreamsTakeMemory) {
  EXPECT_EQ(RunInChild(kSizes,
                       [] {
                         UsePrimaryContext();
                         const size_t free_before = FreeBytes();
                         CUstream stream = nullptr;
                         for (int i = 0; i < 16; ++i) EXPECT_EQ(cuStreamCreate(&stream, 0), CUDA_SUCCESS);
                         EXPECT_EQ(FreeBytes(), free_before - 8 * kMebibyte);
                         for (int i = 16; i < 128; ++i) EXPECT_EQ(cuStreamCreate(&stream, 0), CUDA_SUCCESS);
                         EXPECT_EQ(FreeBytes(), free_before - 70 * kMebibyte);
                         EXPECT_EQ(cuDevicePrimaryCtxReset(0), CUDA_SUCCESS);
                         UsePrimaryContext();
                         EXPECT_EQ(FreeBytes(), free_before);
                       }),
            0);
}

TEST(ResidualTest, CodeThatWasCompiledAtRunTimeFitsIntoTheContext) {
  EXPECT_EQ(RunInChild({{"SIMCUDA_CTX_MB", "100"}},
                       [] {
                         UsePrimaryContext();
                         const size_t free_before = FreeBytes();
                         CUmodule module = nullptr;
                         EXPECT_EQ(cuModuleLoadData(&module, kPtx), CUDA_SUCCESS);
                         EXPECT_EQ(cuModuleLoadData(&module, "\177ELF is a cubin"), CUDA_SUCCESS);
                         EXPECT_EQ(FreeBytes(), free_before);
                         EXPECT_EQ(cuModuleLoadData(&module, "a library's"), CUDA_SUCCESS);
                         EXPECT_LT(FreeBytes(), free_before);
                       }),
            0);
}

TEST(ResidualTest, LocalMemoryThatDoesNotFitIsAnError) {
  EXPECT_EQ(RunInChild({{"SIMCUDA_MEM_MB", "300"}, {"SIMCUDA_CTX_MB", "100"}, {"SIMCUDA_MODULE_KB", "6144"}},
                       [] {
                         UsePrimaryContext();
                         CUmodule module = nullptr;
                         ASSERT_EQ(cuModuleLoadData(&module, kPtx), CUDA_SUCCESS);
                         EXPECT_EQ(LaunchKernel(module, "large"), CUDA_ERROR_OUT_OF_MEMORY);
                         EXPECT_EQ(LaunchKernel(module, "none"), CUDA_SUCCESS);
                       }),
            0);
}

TEST(ResidualTest, LimitsEnlargeTheContext) {
  EXPECT_EQ(RunInChild(kSizes,
                       [] {
                         UsePrimaryContext();
                         const size_t free_before = FreeBytes();
                         size_t value = 0;
                         EXPECT_EQ(cuCtxGetLimit(&value, CU_LIMIT_MALLOC_HEAP_SIZE), CUDA_SUCCESS);
                         EXPECT_EQ(value, 8 * kMebibyte);
                         EXPECT_EQ(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 72 * kMebibyte), CUDA_SUCCESS);
                         EXPECT_EQ(cuCtxGetLimit(&value, CU_LIMIT_MALLOC_HEAP_SIZE), CUDA_SUCCESS);
                         EXPECT_EQ(value, 72 * kMebibyte);
                         EXPECT_EQ(FreeBytes(), free_before - 64 * kMebibyte);
                         EXPECT_EQ(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, kMebibyte), CUDA_SUCCESS);
                         EXPECT_EQ(FreeBytes(), free_before);
                         EXPECT_EQ(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, size_t{1} << 40), CUDA_ERROR_OUT_OF_MEMORY);
                         EXPECT_EQ(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 10 * kMebibyte), CUDA_SUCCESS);
                         EXPECT_EQ(cuDevicePrimaryCtxReset(0), CUDA_SUCCESS);
                         UsePrimaryContext();
                         EXPECT_EQ(FreeBytes(), free_before);
                       }),
            0);
}

void UseGreenContext() {
  UsePrimaryContext();
  const size_t free_before = FreeBytes();
  CUdevResource whole{}, part{};
  unsigned groups = 1;
  CUdevResourceDesc description = nullptr;
  CUgreenCtx green = nullptr;
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  CUdeviceptr pointer = 0;
  ASSERT_EQ(cuDeviceGetDevResource(0, &whole, CU_DEV_RESOURCE_TYPE_SM), CUDA_SUCCESS);
  EXPECT_EQ(whole.sm.smCount, 132u);
  ASSERT_EQ(cuDevSmResourceSplitByCount(&part, &groups, &whole, nullptr, 0, 20), CUDA_SUCCESS);
  EXPECT_EQ(part.sm.smCount, 24u);
  ASSERT_EQ(cuDevResourceGenerateDesc(&description, &part, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuGreenCtxCreate(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM), CUDA_SUCCESS);
  EXPECT_EQ(FreeBytes(), free_before - 10 * kMebibyte);
  EXPECT_EQ(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxFromGreenCtx(&context, green), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxPushCurrent(context), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAlloc(&pointer, 2 * kMebibyte), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxPopCurrent(&context), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxDestroy(context), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuGreenCtxDestroy(green), CUDA_SUCCESS);
  EXPECT_EQ(cuGreenCtxDestroy(green), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(FreeBytes(), free_before - 2 * kMebibyte);  // the memory is the primary context's
  EXPECT_EQ(cuMemFree(pointer), CUDA_SUCCESS);
}

TEST(ResidualTest, GreenContextsShareThePrimaryOnesMemory) { EXPECT_EQ(RunInChild(kSizes, UseGreenContext), 0); }

}  // namespace
}  // namespace simcuda
