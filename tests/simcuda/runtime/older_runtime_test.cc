// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The runtimes of CUDA 12 and 11, loaded as programs meet them: by soname and symbol version, several in one process.
#include <cuda.h>
#include <dlfcn.h>
#include <gmock/gmock.h>

#include "tests/simcuda/driver/log_reader.h"
#include "tests/simcuda/driver/run_in_child.h"

namespace simcuda {
namespace {

using testing::ElementsAre;

void* Load(const char* soname) {
  const std::string path = std::string(SIMCUDA_LIBRARY_DIR) + "/" + soname;
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(library, nullptr) << ::dlerror();
  return library;
}

template <typename Function>
Function* Find(void* library, const char* name, const char* version) {
  auto* const function = reinterpret_cast<Function*>(::dlvsym(library, name, version));
  EXPECT_NE(function, nullptr) << name << "@" << version;
  return function;
}

using Malloc = int(void**, size_t);
using Free = int(void*);
using GetVersion = int(int*);

class OlderRuntimeTest : public testing::TestWithParam<std::pair<const char*, int>> {};

TEST_P(OlderRuntimeTest, AllocatesThroughTheSameDriver) {
  const auto [soname, version] = GetParam();
  const std::string path = TemporaryPath("older");
  ASSERT_EQ(RunInChild({{"SIMCUDA_LOG", path}},
                       [&, soname = soname, version = version] {
                         void* const library = Load(soname);
                         int answer = 0, count = 0;
                         void* pointer = nullptr;
                         EXPECT_EQ(Find<GetVersion>(library, "cudaRuntimeGetVersion", soname)(&answer), 0);
                         EXPECT_EQ(answer / 1000, version);
                         EXPECT_EQ(Find<GetVersion>(library, "cudaGetDeviceCount", soname)(&count), 0);
                         EXPECT_EQ(count, 1);
                         EXPECT_EQ(Find<Malloc>(library, "cudaMalloc", soname)(&pointer, 4096), 0);
                         EXPECT_EQ(Find<Free>(library, "cudaFree", soname)(pointer), 0);
                       }),
            0);
  std::vector<std::string> apis;
  for (const LogLine& line : ReadLog(path)) apis.push_back(line.at("api"));
  ::unlink(path.c_str());
  EXPECT_THAT(apis, ElementsAre("cuDevicePrimaryCtxRetain", "cuMemAlloc_v2", "cuMemFree_v2"));
}

TEST_P(OlderRuntimeTest, RefusesADriverOfAnOlderMajorVersion) {
  const auto [soname, version] = GetParam();
  EXPECT_EQ(RunInChild({{"SIMCUDA_DRIVER_VERSION", std::to_string(version * 1000 - 920)}},
                       [soname = soname] {
                         int count = 0;
                         EXPECT_EQ(Find<GetVersion>(Load(soname), "cudaGetDeviceCount", soname)(&count), 35);
                       }),
            0);
  EXPECT_EQ(RunInChild({{"SIMCUDA_DRIVER_VERSION", std::to_string(version * 1000 + 20)}},
                       [soname = soname] {
                         int count = 0;
                         EXPECT_EQ(Find<GetVersion>(Load(soname), "cudaGetDeviceCount", soname)(&count), 0);
                       }),
            0);
}

TEST_P(OlderRuntimeTest, SharesTheProcessWithTheNewestRuntime) {
  const auto [soname, version] = GetParam();
  EXPECT_EQ(RunInChild({},
                       [soname = soname] {
                         void* const older = Load(soname);
                         void* const newest = Load("libcudart.so.13");
                         void *one = nullptr, *other = nullptr;
                         EXPECT_EQ(Find<Malloc>(older, "cudaMalloc", soname)(&one, 1 << 20), 0);
                         EXPECT_EQ(Find<Malloc>(newest, "cudaMalloc", "libcudart.so.13")(&other, 1 << 20), 0);
                         EXPECT_NE(one, other);
                         // Both work in the one primary context: memory of either is freed by either.
                         EXPECT_EQ(Find<Free>(newest, "cudaFree", "libcudart.so.13")(one), 0);
                         EXPECT_EQ(Find<Free>(older, "cudaFree", soname)(other), 0);
                         EXPECT_EQ(Find<Free>(older, "cudaFree", soname)(other), 1);
                       }),
            0);
}

#if defined(SIMCUDA_HAS_RUNTIME12)
INSTANTIATE_TEST_SUITE_P(Cuda12, OlderRuntimeTest, testing::Values(std::pair("libcudart.so.12", 12)));
#endif
#if defined(SIMCUDA_HAS_RUNTIME11)
INSTANTIATE_TEST_SUITE_P(Cuda11, OlderRuntimeTest, testing::Values(std::pair("libcudart.so.11.0", 11)));
#endif

}  // namespace
}  // namespace simcuda
