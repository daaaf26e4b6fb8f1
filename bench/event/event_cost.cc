// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// event_cost MODE THREADS PAIRS: allocates and frees PAIRS times on each of THREADS threads, twenty frames deep, always
// from the same line, so that the stack is in every cache. Prints one JSON line: CPU and wall nanoseconds a call (a
// pair is two calls). MODE is `cuda` (cudaMalloc, cudaFree) or `malloc` (what heaptrack records). bench/run starts it
// with and without the recorder; the difference is the recorder's cost.

#include <cuda_runtime_api.h>
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
    std::fprintf(stderr, "usage: event_cost cuda|malloc THREADS PAIRS\n");
    return 2;
  }
  bool (*const pair)() = std::strcmp(argv[1], "malloc") == 0 ? MallocPair : CudaPair;
  const int thread_count = std::atoi(argv[2]);
  const int pairs = std::atoi(argv[3]);
  pair();  // CUDA starts up here

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
