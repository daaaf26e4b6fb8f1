// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A program with the CUDA runtime linked into it, which loads the driver itself, to which `gpumemshim attach` comes:
// attach_static_host FILE. Four threads allocate and free until FILE exists; then 50 blocks of sizes that nothing else
// has are held at once and freed.

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

namespace {

constexpr size_t kKiB = 1024, kFirstKiB = 1000;
constexpr int kBlocks = 50, kThreads = 4;

int Train(const char* file) {
  std::atomic<int> errors{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([file, t, &errors] {
      while (access(file, F_OK) != 0) {
        void* memory = nullptr;
        if (cudaMalloc(&memory, (4 + t) * kKiB) != cudaSuccess || cudaFree(memory) != cudaSuccess) ++errors;
        usleep(100);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

int HoldAtOnce() {
  std::vector<void*> blocks(kBlocks);
  int errors = 0;
  for (int i = 0; i < kBlocks; ++i) {
    if (cudaMalloc(&blocks[i], (kFirstKiB + static_cast<size_t>(i)) * kKiB) != cudaSuccess) ++errors;
  }
  for (void* block : blocks) {
    if (cudaFree(block) != cudaSuccess) ++errors;
  }
  return errors;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || cudaFree(nullptr) != cudaSuccess) return 64;
  puts("ready");
  fflush(stdout);
  return Train(argv[1]) != 0 ? 2 : HoldAtOnce() != 0 ? 3 : 0;
}
