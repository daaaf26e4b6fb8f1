// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Allocates 100 blocks of 1 MiB, then ends as its argument says:
//   return | exit CODE | _exit CODE | abort | throw | wait | fork | no-cuda | only-init
// `wait` prints "ready" and sleeps, to be killed. `fork` lets a child that never touches CUDA end before it.

#include <cuda_runtime_api.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace {

void Allocate() {
  for (int i = 0; i < 100; ++i) {
    void* memory = nullptr;
    if (cudaMalloc(&memory, 1 << 20) != cudaSuccess) std::exit(70);
  }
}

int ThrowAndCatch() {
  try {
    throw std::runtime_error("thrown");
  } catch (const std::runtime_error& error) {
    return std::strcmp(error.what(), "thrown") == 0 ? 0 : 71;
  }
}

int Fork() {
  const pid_t child = fork();
  if (child == 0) std::exit(7);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 7 ? 0 : 72;
}

[[noreturn]] void WaitToBeKilled() {
  std::puts("ready");
  std::fflush(stdout);
  for (;;) pause();
}

}  // namespace

int main(int argc, char** argv) {
  const char* ending = argc > 1 ? argv[1] : "return";
  const int code = argc > 2 ? std::atoi(argv[2]) : 0;
  const auto is = [ending](const char* name) { return std::strcmp(ending, name) == 0; };
  if (is("no-cuda")) return code;
  int count = 0;
  if (is("only-init")) return cudaGetDeviceCount(&count) == cudaSuccess ? code : 73;
  Allocate();
  if (is("exit")) std::exit(code);
  if (is("_exit")) _exit(code);
  if (is("abort")) std::abort();
  if (is("throw")) return ThrowAndCatch();
  if (is("fork")) return Fork();
  if (is("wait")) WaitToBeKilled();
  return code;
}
