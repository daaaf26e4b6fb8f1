// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Eight threads that allocate and free through the CUDA runtime, hand memory to each other, and leave some of it.
// Usage: host_threads [ROUNDS]

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

constexpr int kThreads = 8;

// A place where one thread leaves memory for whoever comes next.
std::array<std::atomic<void*>, 16> handed_over;

void Check(cudaError_t status) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "host_threads: %s\n", cudaGetErrorString(status));
  std::_Exit(1);
}

void* Allocate(unsigned choice, std::size_t bytes) {
  void* memory = nullptr;
  Check(choice % 3 == 0 ? cudaMallocAsync(&memory, bytes, nullptr) : cudaMalloc(&memory, bytes));
  return memory;
}

void Work(unsigned seed, int rounds) {
  unsigned state = seed * 2654435761u + 1;
  const auto next = [&state] { return state = state * 1664525u + 1013904223u; };
  for (int round = 0; round < rounds; ++round) {
    void* memory = Allocate(next() >> 16, 512u + (next() >> 8) % (3u << 20));
    void* other = handed_over[(next() >> 16) % handed_over.size()].exchange(memory);
    if (other != nullptr) Check(cudaFree(other));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 500;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; ++i) threads.emplace_back(Work, i, rounds);
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < handed_over.size(); i += 2) Check(cudaFree(handed_over[i].exchange(nullptr)));
  return 0;
}
