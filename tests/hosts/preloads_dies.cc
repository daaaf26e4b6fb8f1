// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A preload behind the recorder in whose cudaMalloc the calling thread dies: every third call by SYS_exit, as a thread
// ends whose stack nobody unwinds, every third by pthread_exit, which unwinds through the recorder.

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>

extern "C" __attribute__((visibility("default"))) cudaError_t cudaMalloc(void** out, std::size_t bytes) {
  static std::atomic<int> calls;
  static const auto real = reinterpret_cast<cudaError_t (*)(void**, std::size_t)>(dlsym(RTLD_NEXT, "cudaMalloc"));
  static const bool deadly = std::getenv("PRELOAD_DIES") != nullptr;
  if (getpid() == syscall(SYS_gettid) || !deadly) return real(out, bytes);
  const int call = calls.fetch_add(1);
  if (call % 3 == 1) syscall(SYS_exit, 0);
  if (call % 3 == 2) pthread_exit(nullptr);
  return real(out, bytes);
}
