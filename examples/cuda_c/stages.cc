// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A C++ program without PyTorch that uses the GPU's memory by the CUDA runtime: a table that stays, a buffer for each
// of several rounds, one result that is forgotten. It needs a CUDA 13 runtime (libcudart.so.13) to run.
//
//   c++ -std=c++20 -I<cuda>/include examples/cuda_c/stages.cc -L<cuda>/lib64 -lcudart -o stages && ./stages

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr std::size_t kMiB = 1 << 20;

void Check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
  std::exit(1);
}

void* Allocate(std::size_t bytes) {
  void* memory = nullptr;
  Check(cudaMalloc(&memory, bytes), "cudaMalloc");
  return memory;
}

void* LoadTable() {
  const std::vector<float> host(64 * kMiB / sizeof(float), 1.0f);
  void* table = Allocate(64 * kMiB);
  Check(cudaMemcpy(table, host.data(), 64 * kMiB, cudaMemcpyHostToDevice), "cudaMemcpy");
  return table;
}

// Works in a buffer that grows from round to round, on a stream-ordered pool.
void RunRound(cudaStream_t stream, int round) {
  const std::size_t bytes = (8 + 4 * static_cast<std::size_t>(round)) * kMiB;
  void* buffer = nullptr;
  Check(cudaMallocAsync(&buffer, bytes, stream), "cudaMallocAsync");
  Check(cudaMemsetAsync(buffer, 0, bytes, stream), "cudaMemsetAsync");
  Check(cudaFreeAsync(buffer, stream), "cudaFreeAsync");
}

void* KeepResult() { return Allocate(16 * kMiB); }

}  // namespace

int main() {
  void* table = LoadTable();
  cudaStream_t stream;
  Check(cudaStreamCreate(&stream), "cudaStreamCreate");
  for (int round = 0; round < 10; ++round) RunRound(stream, round);
  Check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  const void* result = KeepResult();  // never freed
  Check(cudaFree(table), "cudaFree");
  Check(cudaStreamDestroy(stream), "cudaStreamDestroy");
  std::printf("done; a result stays at %p\n", result);
  return 0;
}
