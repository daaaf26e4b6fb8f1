// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Who holds a device's memory: this process, others that share the machine, a made-up one.
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <cuda.h>
#include <gmock/gmock.h>
#include <nvml.h>

#include <map>

#include "simcuda/base/shared_usage.h"
#include "tests/simcuda/driver/driver_fixture.h"

namespace simcuda {
namespace {

using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

constexpr unsigned long long kMiB = 1 << 20;

nvmlDevice_t Device() {
  nvmlDevice_t device = nullptr;
  EXPECT_EQ(nvmlDeviceGetHandleByIndex_v2(0, &device), NVML_SUCCESS);
  return device;
}

nvmlMemory_t Memory() {
  nvmlMemory_t memory{};
  EXPECT_EQ(nvmlDeviceGetMemoryInfo(Device(), &memory), NVML_SUCCESS);
  return memory;
}

std::map<unsigned, unsigned long long> Processes() {
  nvmlProcessInfo_t infos[16];
  unsigned count = 16;
  EXPECT_EQ(nvmlDeviceGetComputeRunningProcesses_v3(Device(), &count, infos), NVML_SUCCESS);
  std::map<unsigned, unsigned long long> found;
  for (unsigned i = 0; i < count; ++i) found[infos[i].pid] = infos[i].usedGpuMemory;
  return found;
}

size_t FreeBytes() {
  size_t free_bytes = 0, total_bytes = 0;
  EXPECT_EQ(cuMemGetInfo(&free_bytes, &total_bytes), CUDA_SUCCESS);
  return free_bytes;
}

const Settings kSmallMachine = {{"SIMCUDA_MEM_MB", "4000"}, {"SIMCUDA_CTX_MB", "100"}};

Settings With(std::initializer_list<std::pair<std::string, std::string>> more) {
  Settings settings = kSmallMachine;
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

TEST(NvmlProcessesTest, TheMadeUpProcessTakesMemoryAway) {
  EXPECT_EQ(RunInChild(With({{"SIMCUDA_OTHERS_MB", "1000"}, {"SIMCUDA_RESERVED_MB", "50"}}),
                       [] {
                         EXPECT_EQ(Memory().used, 1050 * kMiB);
                         EXPECT_THAT(Processes(), UnorderedElementsAre(Pair(kMadeUpProcess, 1000 * kMiB)));
                         UsePrimaryContext();
                         CUdeviceptr pointer = 0;
                         ASSERT_EQ(cuMemAlloc(&pointer, 64 * kMiB), CUDA_SUCCESS);
                         const auto own = static_cast<unsigned>(::getpid());
                         EXPECT_THAT(Processes(),
                                     UnorderedElementsAre(Pair(own, 164 * kMiB), Pair(kMadeUpProcess, 1000 * kMiB)));
                         EXPECT_EQ(FreeBytes(), (4000 - 1164) * kMiB);
                         EXPECT_EQ(Memory().free, FreeBytes());
                         EXPECT_EQ(Memory().used, 1214 * kMiB);
                         EXPECT_EQ(Memory().total, 4050 * kMiB);
                         nvmlMemory_v2_t second{};
                         second.version = NVML_STRUCT_VERSION(Memory, 2);
                         EXPECT_EQ(nvmlDeviceGetMemoryInfo_v2(Device(), &second), NVML_SUCCESS);
                         EXPECT_EQ(second.used, 1164 * kMiB);
                         EXPECT_EQ(second.reserved, 50 * kMiB);
                         EXPECT_EQ(cuMemAlloc(&pointer, 2838 * kMiB), CUDA_ERROR_OUT_OF_MEMORY);
                         EXPECT_EQ(cuMemAlloc(&pointer, 2836 * kMiB), CUDA_SUCCESS);
                       }),
            0);
}

// Holds memory of the device until the pipe's other end closes.
[[noreturn]] void HoldMemory(int ready, int done) {
  UsePrimaryContext();
  CUdeviceptr pointer = 0;
  char byte = cuMemAlloc(&pointer, 200 * kMiB) == CUDA_SUCCESS ? 'y' : 'n';
  if (::write(ready, &byte, 1) != 1 || ::read(done, &byte, 1) != 0) ::_exit(1);
  ::_exit(0);
}

void LookAtOtherProcess() {
  int ready[2], done[2];
  ASSERT_EQ(::pipe(ready), 0);
  ASSERT_EQ(::pipe(done), 0);
  const pid_t other = ::fork();
  if (other == 0) {
    ::close(done[1]);
    HoldMemory(ready[1], done[0]);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ASSERT_EQ(byte, 'y');
  EXPECT_THAT(Processes(), UnorderedElementsAre(Pair(other, 300 * kMiB)));  // seen without a driver of our own
  UsePrimaryContext();
  const auto own = static_cast<unsigned>(::getpid());
  EXPECT_THAT(Processes(), UnorderedElementsAre(Pair(other, 300 * kMiB), Pair(own, 100 * kMiB)));
  EXPECT_EQ(FreeBytes(), 3600 * kMiB);
  CUdeviceptr pointer = 0;
  EXPECT_EQ(cuMemAlloc(&pointer, 3602 * kMiB), CUDA_ERROR_OUT_OF_MEMORY);
  ::close(done[1]);
  int status = 0;
  ::waitpid(other, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_THAT(Processes(), UnorderedElementsAre(Pair(own, 100 * kMiB)));
  EXPECT_EQ(cuMemAlloc(&pointer, 3602 * kMiB), CUDA_SUCCESS);
}

TEST(NvmlProcessesTest, ProcessesShareTheMachineThroughAFile) {
  const std::string path = TemporaryPath("shared");
  EXPECT_EQ(RunInChild(With({{"SIMCUDA_SHARED", path}}), LookAtOtherProcess), 0);
  ::unlink(path.c_str());
}

TEST(NvmlProcessesTest, ProcessesMayBeHiddenAsInAContainer) {
  const auto holding = [] {
    UsePrimaryContext();
    return Processes();
  };
  EXPECT_EQ(RunInChild(With({{"SIMCUDA_NVML_PROCESSES", "none"}}), [&] { EXPECT_THAT(holding(), IsEmpty()); }), 0);
  EXPECT_EQ(RunInChild(With({{"SIMCUDA_NVML_PROCESSES", "foreign"}}),
                       [&] {
                         const auto processes = holding();
                         EXPECT_EQ(processes.size(), 1u);
                         EXPECT_EQ(processes.count(static_cast<unsigned>(::getpid())), 0u);
                       }),
            0);
  EXPECT_EQ(RunInChild(With({{"SIMCUDA_NVML_PROCESSES", "unknown"}}),
                       [&] {
                         const auto bytes = static_cast<unsigned long long>(NVML_VALUE_NOT_AVAILABLE);
                         EXPECT_THAT(holding(), UnorderedElementsAre(Pair(static_cast<unsigned>(::getpid()), bytes)));
                       }),
            0);
}

}  // namespace
}  // namespace simcuda
