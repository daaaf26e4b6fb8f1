// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Kernel launches: checked, counted, and otherwise nothing but what results.h computes. The watchdog for loops that
// wait for a value which no kernel will ever compute. Occupancy.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <ctime>

#include "simcuda/base/environment.h"
#include "simcuda/base/note.h"
#include "simcuda/driver/module.h"
#include "simcuda/driver/stream.h"

using namespace simcuda;  // NOLINT: C functions only below

namespace simcuda {
namespace {

constexpr uint64_t kShownReads = 1000;  // before the limit

std::atomic<uint64_t> g_launches{0};
thread_local bool t_last_was_and = false;

time_t Seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return now.tv_sec;
}

[[noreturn]] void End(const char* what, uint64_t limit) {
  PrintLine(
      "stopped: more than %llu %s (SIMCUDA_MAX_%s). A loop may wait for a value that no simulated kernel computes.",
      static_cast<unsigned long long>(limit), what,
      *what == 's'   ? "SECONDS"
      : *what == 'r' ? "READS"
                     : "LAUNCHES");
  ::_exit(124);
}

}  // namespace

void WatchProgress(uint64_t launches) {
  const uint64_t count = g_launches.fetch_add(launches, std::memory_order_relaxed) + launches;
  const Environment& environment = GetEnvironment();
  if (environment.max_launches != 0 && count > environment.max_launches) End("launches", environment.max_launches);
  if (environment.max_seconds != 0) {
    static const time_t start = Seconds();
    if (static_cast<uint64_t>(Seconds() - start) > environment.max_seconds) End("seconds", environment.max_seconds);
  }
}

bool WatchRead() {
  static std::atomic<uint64_t> reads{0};
  const uint64_t limit = GetEnvironment().max_reads, count = reads.fetch_add(1, std::memory_order_relaxed) + 1;
  if (limit != 0 && count > limit) End("reads", limit);
  return limit != 0 && count + kShownReads > limit;
}

uint64_t LaunchCount() { return g_launches.load(std::memory_order_relaxed); }

bool LastKernelWasAnd() { return t_last_was_and; }

}  // namespace simcuda

namespace {

struct Shape {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
};

void TellAddresses() {
  Caller caller;
  if (CurrentCaller("cuLaunchKernel", &caller) == CUDA_SUCCESS) GetSimulation()->machine.OnKernel(caller.device);
}

CUresult Launch(CUfunction function, const Shape& shape, CUstream stream, void** arguments) {
  if (const CUresult result = CheckContext(); result != CUDA_SUCCESS) return result;
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  uint64_t threads = 1, blocks = 1;
  for (int i = 0; i < 3; ++i) {
    threads *= shape.block[i];
    blocks *= shape.grid[i] == 0 ? 0 : 1;
  }
  const bool too_large = shape.grid[1] > 65535 || shape.grid[2] > 65535 || shape.grid[0] > 2147483647u;
  if (blocks == 0 || threads == 0 || threads > 1024 || too_large) return CUDA_ERROR_INVALID_VALUE;
  if (shape.shared_bytes > static_cast<unsigned>(GetEnvironment().shared_memory)) return CUDA_ERROR_INVALID_VALUE;
  const auto* const kernel = reinterpret_cast<const Function*>(function);
  if (kernel->local_bytes != 0) {
    if (const CUresult result = NeedLocalMemory(kernel->local_bytes); result != CUDA_SUCCESS) return result;
  }
  bool captured = false;
  if (const CUresult result = Enqueue(stream, CU_GRAPH_NODE_TYPE_KERNEL, &captured); result != CUDA_SUCCESS)
    return result;
  const Recipe& recipe = kernel->recipe;
  t_last_was_and = recipe.kind == Recipe::Kind::kAllTrue;
  if (captured) return CUDA_SUCCESS;
  WatchProgress(1);
  if (GetEnvironment().address_order == AddressOrder::kWsl2) TellAddresses();
  if (recipe.kind != Recipe::Kind::kNothing) ComputeResult(recipe, arguments);
  return CUDA_SUCCESS;
}

int BlocksPerMultiprocessor(int block_size) {
  const Multiprocessor& multiprocessor = GetEnvironment().multiprocessor;
  return block_size <= 0 ? 1 : std::clamp(multiprocessor.max_threads / block_size, 1, multiprocessor.max_blocks);
}

}  // namespace

extern "C" {

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void** arguments,
                        void**) {
  return Launch(function, {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes}, stream, arguments);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** arguments, void**) {
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Launch(function,
                {{config->gridDimX, config->gridDimY, config->gridDimZ},
                 {config->blockDimX, config->blockDimY, config->blockDimZ},
                 config->sharedMemBytes},
                config->hStream, arguments);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                                   CUstream stream, void** arguments) {
  return Launch(function, {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes}, stream, arguments);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction, int block_size, size_t) {
  *blocks = BlocksPerMultiprocessor(block_size);
  return CheckContext();
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction, int block_size, size_t,
                                                              unsigned) {
  *blocks = BlocksPerMultiprocessor(block_size);
  return CheckContext();
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, CUfunction, CUoccupancyB2DSize, size_t,
                                                   int limit, unsigned) {
  *block = limit > 0 ? std::min(limit, 1024) : 1024;
  *grid = GetEnvironment().multiprocessors * BlocksPerMultiprocessor(*block);
  return CheckContext();
}

CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction function, CUoccupancyB2DSize size,
                                          size_t dynamic_bytes, int limit) {
  return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, function, size, dynamic_bytes, limit, 0);
}

CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction, const CUlaunchConfig*) {
  *clusters = std::max(GetEnvironment().multiprocessors / 2, 1);
  return CheckContext();
}

CUresult cuOccupancyMaxPotentialClusterSize(int* size, CUfunction, const CUlaunchConfig*) {
  *size = 8;
  return CheckContext();
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, CUfunction, int blocks, int) {
  *bytes = static_cast<size_t>(GetEnvironment().shared_memory) / static_cast<size_t>(std::max(blocks, 1));
  return CheckContext();
}

CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                                const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,
                                CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  if (map == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::memset(map, 0, sizeof *map);
  return CUDA_SUCCESS;
}

}  // extern "C"
