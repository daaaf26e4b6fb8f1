// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Allocates and frees through the runtime, lets the memory saver pause and resume where one is preloaded, and says by
// what clock it lives. `threads`: from threads that may die in the middle. `report`: as PyTorch's allocator reports.

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <ctime>
#include <thread>

namespace {

void* Allocate(std::size_t bytes) {
  void* memory = nullptr;
  if (cudaMalloc(&memory, bytes) != cudaSuccess) std::puts("cudaMalloc failed");
  return memory;
}

void CallIfThere(const char* name) {
  if (void* function = dlsym(RTLD_DEFAULT, name)) reinterpret_cast<void (*)()>(function)();
}

int UseReports() {
  void* torch = dlopen("libpreloads_torch.so", RTLD_NOW | RTLD_LOCAL);
  if (torch == nullptr) return 71;
  reinterpret_cast<void (*)()>(dlsym(torch, "UseAllocator"))();
  return 0;
}

void UseThreads() {
  for (int i = 0; i < 12; ++i) {
    pthread_t thread;
    const auto body = [](void*) -> void* { return Allocate(1 << 20); };
    if (pthread_create(&thread, nullptr, body, nullptr) == 0) pthread_join(thread, nullptr);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "report") == 0) return UseReports();
  void* gone = Allocate(3 << 20);
  void* kept = Allocate(1000);
  if (argc > 1 && std::strcmp(argv[1], "threads") == 0) UseThreads();
  CallIfThere("SaverPause");
  CallIfThere("SaverResume");
  Allocate(5 << 20);
  cudaFree(gone);
  std::printf("year %ld, %s\n", 1970 + static_cast<long>(std::time(nullptr) / 31'556'952),
              kept == nullptr ? "nothing" : "kept");
  return 0;
}
