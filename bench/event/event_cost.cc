// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// event_cost MODE THREADS PAIRS: allocates and frees PAIRS times on each of THREADS threads, twenty frames deep, always
// from the same line, so that the stack is in every cache. Prints one JSON line: CPU and wall nanoseconds a call (a
// pair is two calls). MODE is `cuda` (cudaMalloc, cudaFree), `torch` (the reports of PyTorch's allocator, without the
// allocator: no lock and no other work, so that threads show what the recorder alone shares between them) or `malloc`
// (what heaptrack records). bench/run starts it with and without the recorder; the difference is the recorder's cost.

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <pthread.h>
#include <time.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

namespace {

constexpr int kDepth = 20;
constexpr int kWarmUpPairs = 2000;
constexpr std::size_t kBytes = 4096;

uint64_t Now(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

struct Cost {
  uint64_t cpu_ns = 0;
  uint64_t wall_ns = 0;
};

bool CudaPair() {
  void* memory = nullptr;
  return cudaMalloc(&memory, kBytes) == cudaSuccess && cudaFree(memory) == cudaSuccess;
}

bool MallocPair() {
  void* memory = std::malloc(kBytes);
  __asm__ volatile("" : : "r"(memory) : "memory");  // or the compiler drops the pair
  std::free(memory);
  return memory != nullptr;
}

// As c10::reportMemoryUsageToProfiler(void*, int64_t, size_t, size_t, c10::Device) takes them.
struct Device {
  int8_t type;
  int8_t index;
};
using Report = void (*)(void*, int64_t, uint64_t, uint64_t, Device);

__attribute__((noinline)) void Unrecorded(void*, int64_t, uint64_t, uint64_t, Device) { __asm__ volatile(""); }

// The recorder's, where it is preloaded; PyTorch itself is not here.
Report FindReport() {
  void* found = dlsym(RTLD_DEFAULT, "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");
  return found != nullptr ? reinterpret_cast<Report>(found) : &Unrecorded;
}

bool TorchPair() {
  static const Report report = FindReport();
  constexpr Device kDevice{1, 0};
  static thread_local char block;
  report(&block, kBytes, kBytes, 2 << 20, kDevice);
  report(&block, -static_cast<int64_t>(kBytes), 0, 2 << 20, kDevice);
  return true;
}

bool (*PairOf(const char* mode))() {
  if (std::strcmp(mode, "malloc") == 0) return &MallocPair;
  if (std::strcmp(mode, "torch") == 0) return &TorchPair;
  return &CudaPair;
}

Cost RunPairs(bool (*pair)(), int pairs) {
  for (int i = 0; i < kWarmUpPairs; ++i) {
    if (!pair()) std::exit(1);
  }
  const uint64_t wall = Now(CLOCK_MONOTONIC);
  const uint64_t cpu = Now(CLOCK_THREAD_CPUTIME_ID);
  for (int i = 0; i < pairs; ++i) pair();
  return {Now(CLOCK_THREAD_CPUTIME_ID) - cpu, Now(CLOCK_MONOTONIC) - wall};
}

// Twenty frames that no compiler may fold into a loop: each does something after the call it made.
__attribute__((noinline)) Cost Descend(int depth, bool (*pair)(), int pairs) {
  Cost cost = depth > 1 ? Descend(depth - 1, pair, pairs) : RunPairs(pair, pairs);
  __asm__ volatile("" : : "r"(&cost) : "memory");
  return cost;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: event_cost cuda|torch|malloc THREADS PAIRS\n");
    return 2;
  }
  bool (*const pair)() = PairOf(argv[1]);
  const int thread_count = std::atoi(argv[2]);
  const int pairs = std::atoi(argv[3]);
  CudaPair();  // CUDA starts up here, and the recorder

  std::vector<Cost> costs(static_cast<std::size_t>(thread_count));
  std::vector<std::thread> threads;
  threads.reserve(costs.size());
  for (Cost& cost : costs) threads.emplace_back([&cost, pair, pairs] { cost = Descend(kDepth, pair, pairs); });
  for (std::thread& thread : threads) thread.join();

  Cost sum;
  for (const Cost& cost : costs) {
    sum.cpu_ns += cost.cpu_ns;
    sum.wall_ns += cost.wall_ns;
  }
  const double calls = 2.0 * pairs * thread_count;
  std::printf(
      "{\"mode\": \"%s\", \"threads\": %d, \"calls\": %.0f, \"cpu_ns_a_call\": %.1f, \"wall_ns_a_call\": %.1f}\n",
      argv[1], thread_count, calls, static_cast<double>(sum.cpu_ns) / calls, static_cast<double>(sum.wall_ns) / calls);
  return 0;
}
