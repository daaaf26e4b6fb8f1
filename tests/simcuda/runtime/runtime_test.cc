// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>

#include <thread>

#include "tests/simcuda/driver/log_reader.h"
#include "tests/simcuda/driver/run_in_child.h"

// What nvcc-compiled host code calls; no header declares it.
extern "C" {
void** __cudaRegisterFatBinary(void* image);
void __cudaUnregisterFatBinary(void** handle);
void __cudaRegisterFunction(void** handle, const char* stub, char* device_function, const char* name, int thread_limit,
                            uint3* thread, uint3* block, dim3* block_size, dim3* grid_size, int* warp_size);
}

namespace simcuda {
namespace {

using testing::ElementsAre;

constexpr char kThrust[] = "_ZN6thrust33THRUST_300001_SM_750_800_860_NS6kernelEv";
constexpr char kOtherThrust[] = "_ZN6thrust29THRUST_300001_SM_750_890_NS6kernelEv";

// Kernels as one translation unit of this program registers them. -> its handle
void** Register(std::initializer_list<std::pair<const char*, const char*>> kernels) {
  static char image[16];
  void** const handle = __cudaRegisterFatBinary(image);
  for (const auto& [stub, name] : kernels)
    __cudaRegisterFunction(handle, stub, nullptr, name, -1, nullptr, nullptr, nullptr, nullptr, nullptr);
  return handle;
}

// {ptxVersion, binaryVersion}
std::pair<int, int> VersionsOf(const void* stub) {
  cudaFuncAttributes attributes{};
  EXPECT_EQ(cudaFuncGetAttributes(&attributes, stub), cudaSuccess);
  return {attributes.ptxVersion, attributes.binaryVersion};
}

cudaError_t Launch(const void* stub) {
  return cudaLaunchKernel(stub, dim3{1, 1, 1}, dim3{1, 1, 1}, nullptr, 0, nullptr);
}

TEST(RuntimeTest, ErrorsAreRememberedUntilAsked) {
  EXPECT_EQ(RunInChild({{"SIMCUDA_MEM_MB", "600"}},
                       [] {
                         void* pointer = nullptr;
                         EXPECT_EQ(cudaMalloc(&pointer, size_t{1} << 30), cudaErrorMemoryAllocation);
                         EXPECT_EQ(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
                         EXPECT_EQ(cudaMalloc(&pointer, 512), cudaSuccess);  // a success does not clear it
                         EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
                         EXPECT_EQ(cudaGetLastError(), cudaSuccess);
                         EXPECT_EQ(cudaSetDevice(5), cudaErrorInvalidDevice);
                         std::thread([] { EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess); }).join();
                         EXPECT_STREQ(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation");
                         EXPECT_STREQ(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
                       }),
            0);
}

TEST(RuntimeTest, NoDeviceAndOldDriver) {
  int count = 7;
  EXPECT_EQ(RunInChild({{"CUDA_VISIBLE_DEVICES", ""}},
                       [&] {
                         EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorNoDevice);
                         EXPECT_EQ(count, 0);
                       }),
            0);
  EXPECT_EQ(RunInChild({{"SIMCUDA_DRIVER_VERSION", "12040"}},
                       [&] { EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorInsufficientDriver); }),
            0);
}

TEST(RuntimeTest, EachCallReachesTheDriverFunctionOfTheRealRuntime) {
  const std::string path = TemporaryPath("runtime");
  ASSERT_EQ(RunInChild({{"SIMCUDA_LOG", path}},
                       [] {
                         void* p = nullptr;
                         size_t pitch = 0;
                         cudaArray_t array = nullptr;
                         const cudaChannelFormatDesc format =
                             cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
                         EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
                         EXPECT_EQ(cudaMalloc(&p, 100), cudaSuccess);
                         EXPECT_EQ(cudaFree(p), cudaSuccess);
                         EXPECT_EQ(cudaMallocPitch(&p, &pitch, 100, 10), cudaSuccess);
                         EXPECT_EQ(pitch, 512u);
                         EXPECT_EQ(cudaMallocManaged(&p, 100, cudaMemAttachGlobal), cudaSuccess);
                         EXPECT_EQ(cudaMallocHost(&p, 100), cudaSuccess);
                         EXPECT_EQ(cudaFreeHost(p), cudaSuccess);
                         EXPECT_EQ(cudaMallocArray(&array, &format, 64, 0, 0), cudaSuccess);
                         EXPECT_EQ(cudaFreeArray(array), cudaSuccess);
                         EXPECT_EQ(cudaMallocAsync(&p, 100, nullptr), cudaSuccess);
                         EXPECT_EQ(cudaFreeAsync(p, nullptr), cudaSuccess);
                       }),
            0);
  std::vector<std::string> apis;
  for (const LogLine& line : ReadLog(path)) apis.push_back(line.at("api"));
  ::unlink(path.c_str());
  EXPECT_THAT(apis, ElementsAre("cuDevicePrimaryCtxRetain", "cuMemAlloc_v2", "cuMemFree_v2", "cuMemAllocPitch_v2",
                                "cuMemAllocManaged", "cuMemHostAlloc", "cuMemFreeHost", "cuArray3DCreate_v2",
                                "cuArrayDestroy", "cuMemAllocAsync", "cuMemFreeAsync"));
}

TEST(RuntimeTest, DeviceBelongsToTheThread) {
  EXPECT_EQ(RunInChild({{"SIMCUDA_DEVICES", "2"}},
                       [] {
                         int device = 7;
                         EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
                         std::thread([&] { EXPECT_EQ(cudaGetDevice(&device), cudaSuccess); }).join();
                         EXPECT_EQ(device, 0);
                         EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
                         EXPECT_EQ(device, 1);
                         void* pointer = nullptr;
                         cudaPointerAttributes attributes;
                         EXPECT_EQ(cudaMalloc(&pointer, 512), cudaSuccess);
                         EXPECT_EQ(cudaPointerGetAttributes(&attributes, pointer), cudaSuccess);
                         EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
                         EXPECT_EQ(attributes.device, 1);
                         EXPECT_EQ(cudaPointerGetAttributes(&attributes, &device), cudaSuccess);
                         EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
                       }),
            0);
}

TEST(RuntimeTest, EntryPointsComeFromTheDriver) {
  EXPECT_EQ(
      RunInChild({},
                 [] {
                   void* function = nullptr;
                   cudaDriverEntryPointQueryResult status = cudaDriverEntryPointSuccess;
                   EXPECT_EQ(cudaGetDriverEntryPointByVersion("cuMemMap", &function, 12000, cudaEnableDefault, &status),
                             cudaSuccess);
                   EXPECT_NE(function, nullptr);
                   EXPECT_EQ(cudaGetDriverEntryPointByVersion("cuMemMap", &function, 10000, cudaEnableDefault, &status),
                             cudaSuccess);
                   EXPECT_EQ(status, cudaDriverEntryPointVersionNotSufficent);
                   EXPECT_EQ(cudaGetDriverEntryPointByVersion("cuNo", &function, 12000, cudaEnableDefault, &status),
                             cudaSuccess);
                   EXPECT_EQ(status, cudaDriverEntryPointSymbolNotFound);
                 }),
      0);
}

TEST(RuntimeTest, EmptyGridsAreRefused) {
  EXPECT_EQ(RunInChild({},
                       [] {
                         static const char stub = 0;
                         EXPECT_EQ(cudaLaunchKernel(&stub, dim3{0, 1, 1}, dim3{1, 1, 1}, nullptr, 0, nullptr),
                                   cudaErrorInvalidConfiguration);
                         EXPECT_EQ(cudaLaunchKernel(&stub, dim3{1, 1, 1}, dim3{2048, 1, 1}, nullptr, 0, nullptr),
                                   cudaErrorInvalidConfiguration);
                       }),
            0);
}

TEST(RuntimeTest, AKernelsVersionIsThatOfItsCodeAndNotTheDevices) {
  static const char named = 0, beside = 0, elsewhere = 0, other = 0;
  EXPECT_EQ(RunInChild({{"SIMCUDA_CC", "89"}},
                       [] {
                         Register({{&named, kThrust}, {&beside, "_Z6besidev"}});
                         Register({{&other, kOtherThrust}});
                         Register({{&elsewhere, kThrust}});
                         EXPECT_EQ(VersionsOf(&named), std::make_pair(86, 86));
                         EXPECT_EQ(VersionsOf(&beside), std::make_pair(86, 86));
                         EXPECT_EQ(VersionsOf(&other), std::make_pair(89, 89));
                         // Of a translation unit that tells nothing: what most of this object's say.
                         static const char late = 0;
                         Register({{&late, "_Z4latev"}});
                         EXPECT_EQ(VersionsOf(&late), std::make_pair(86, 86));
                         EXPECT_EQ(Launch(&late), cudaSuccess);
                       }),
            0);
}

TEST(RuntimeTest, ADeviceThatTheProgramHasNoCodeFor) {
  static const char named = 0, plain = 0;
  EXPECT_EQ(RunInChild({{"SIMCUDA_CC", "70"}},
                       [] {
                         Register({{&named, kThrust}, {&plain, "_Z5plainv"}});
                         cudaFuncAttributes attributes{};
                         cudaFunction_t function = nullptr;
                         EXPECT_EQ(cudaFuncGetAttributes(&attributes, &named), cudaErrorNoKernelImageForDevice);
                         EXPECT_EQ(cudaGetFuncBySymbol(&function, &plain), cudaErrorNoKernelImageForDevice);
                         EXPECT_EQ(Launch(&plain), cudaErrorNoKernelImageForDevice);
                         EXPECT_EQ(cudaGetLastError(), cudaErrorNoKernelImageForDevice);
                       }),
            0);
}

TEST(RuntimeTest, WhereNoNameTellsCodeIsMadeForTheDevice) {
  static const char plain = 0;
  EXPECT_EQ(RunInChild({{"SIMCUDA_CC", "70"}},
                       [] {
                         Register({{&plain, "_Z5plainv"}});
                         EXPECT_EQ(VersionsOf(&plain), std::make_pair(70, 70));
                         EXPECT_EQ(Launch(&plain), cudaSuccess);
                       }),
            0);
}

TEST(RuntimeTest, NamesOfAnUnloadedObjectAreNotRead) {
  static const char stub = 0, kept = 0;
  EXPECT_EQ(RunInChild({{"SIMCUDA_CC", "89"}},
                       [] {
                         auto* const gone = reinterpret_cast<const char*>(16);  // as after dlclose
                         __cudaUnregisterFatBinary(Register({{&stub, gone}}));
                         Register({{&kept, kThrust}});
                         EXPECT_EQ(VersionsOf(&kept), std::make_pair(86, 86));
                       }),
            0);
}

}  // namespace
}  // namespace simcuda
