// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/control/sampling.h"

#include <unistd.h>

#include <cstdlib>

#include "shim/base/calls/cuda_headers.h"
#include "shim/base/calls/real.h"
#include "shim/base/calls/scope.h"
#include "shim/control/stderr_lines.h"
#include "shim/control/versions.h"

namespace gpumemshim::control {
namespace {

constexpr uint32_t kDrainTimeoutMs = 1000;  // of a machine that is busy; NVML has no part in it
constexpr uint32_t kFinishTimeoutMs = 250;

bool g_exit_handler;  // only ever set by a starter
pid_t g_sampled;      // the process that is sampled

// The default pool lives as long as the device, and neither question needs a context. A program's own pools may be
// destroyed at any time, so they are not asked.
bool ReadDefaultPool(int16_t ordinal, uint64_t* reserved, uint64_t* used) {
  const calls::Scope scope;
  const auto get = reinterpret_cast<decltype(&::cuDeviceGet)>(calls::DriverFunction("cuDeviceGet"));
  const auto get_pool =
      reinterpret_cast<decltype(&::cuDeviceGetDefaultMemPool)>(calls::DriverFunction("cuDeviceGetDefaultMemPool"));
  const auto get_attribute =
      reinterpret_cast<decltype(&::cuMemPoolGetAttribute)>(calls::DriverFunction("cuMemPoolGetAttribute"));
  CUdevice device = 0;
  CUmemoryPool pool = nullptr;
  if (get == nullptr || get_pool == nullptr || get_attribute == nullptr) return false;
  if (get(&device, ordinal) != CUDA_SUCCESS || get_pool(&pool, device) != CUDA_SUCCESS) return false;
  cuuint64_t reserved_bytes = 0, used_bytes = 0;
  if (get_attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved_bytes) != CUDA_SUCCESS ||
      get_attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used_bytes) != CUDA_SUCCESS) {
    return false;
  }
  *reserved = reserved_bytes;
  *used = used_bytes;
  return true;
}

void Warn(const sampler::Crossing& crossing) {
  if (!IsSaid(LogLevel::kWarning)) return;
  char line[256];
  const size_t size = WarningLine(crossing, line, sizeof line);
  if (write(STDERR_FILENO, line, size) < 0) return;
}

}  // namespace

void ConfigureSampling(const Settings& settings) {
  sampler::Config config;
  config.interval_ms = settings.sample_ms;
  config.warn_at = settings.warn_at;
  config.read_pool = &ReadDefaultPool;
  config.warn = &Warn;
  sampler::Configure(config);
  g_sampled = getpid();
  if (settings.sample_ms != 0 && !g_exit_handler) g_exit_handler = std::atexit(&FinishSampling) == 0;
}

bool DescribeAndSampleDevice(int16_t device, writer::DeviceInfo* info) {
  if (!DescribeDevice(device, info)) return false;
  if (info->has_uuid) sampler::AddDevice(device, info->uuid);
  return true;
}

void FinishSampling() {
  if (g_sampled != getpid()) return;      // a child, perhaps in its parent's memory
  writer::FlushAndWait(kDrainTimeoutMs);  // a short program's devices may still wait in the ring
  sampler::Finish(kFinishTimeoutMs);
}

}  // namespace gpumemshim::control
