// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A program that obeys, line by line, and says "ok" to each: so that a test can switch its recording
// in between. It marks its stages through gpumemshim.h.
//
//   init          the first use of CUDA
//   alloc BYTES   and put the pointer on a pile
//   free          the newest one on it
//   push NAME, pop, mark TEXT, snapshot NAME, step N, tag NAME, untag, name NAME (of the newest one), pause, resume
//   read BYTES    of the newest one, reported as a simulation of CUDA does; fetch BYTES: copied to the host
//   fork          a child that uses CUDA itself, allocates once and ends
//   close         every descriptor above stderr, as daemons do
//   quit

#include <cuda_runtime_api.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "gpumemshim.h"

namespace {

std::vector<void*> g_pile;

bool Allocate(size_t bytes) {
  void* pointer = nullptr;
  if (cudaMalloc(&pointer, bytes) != cudaSuccess) return false;
  g_pile.push_back(pointer);
  return true;
}

bool Free() {
  if (g_pile.empty()) return false;
  const bool freed = cudaFree(g_pile.back()) == cudaSuccess;
  g_pile.pop_back();
  return freed;
}

bool Fetch(size_t bytes) {
  std::vector<char> host(bytes);
  return !g_pile.empty() && cudaMemcpy(host.data(), g_pile.back(), bytes, cudaMemcpyDeviceToHost) == cudaSuccess;
}

bool Fork() {
  const pid_t child = fork();
  if (child == 0) {
    close(STDIN_FILENO);
    _exit(0);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

bool Mark(const std::string& word, const std::string& rest) {
  if (word == "push") return gpumemshim_stage_push(rest.c_str()), true;
  if (word == "pop") return gpumemshim_stage_pop(), true;
  if (word == "mark") return gpumemshim_mark(rest.c_str()), true;
  if (word == "snapshot") return gpumemshim_snapshot(rest.c_str()), true;
  if (word == "name") return gpumemshim_name(g_pile.empty() ? nullptr : g_pile.back(), 1, rest.c_str()), true;
  if (word == "step") return gpumemshim_step(std::strtoull(rest.c_str(), nullptr, 10)), true;
  if (word == "tag") return gpumemshim_tag(rest.c_str()), true;
  if (word == "untag") return gpumemshim_tag(nullptr), true;
  if (word == "read")
    return gpumemshim_read(g_pile.empty() ? nullptr : g_pile.back(), std::strtoull(rest.c_str(), nullptr, 10)), true;
  if (word == "pause") return gpumemshim_pause(), true;
  if (word == "resume") return gpumemshim_resume(), true;
  return false;
}

bool Obey(const std::string& word, const std::string& rest) {
  if (word == "init") return cudaFree(nullptr) == cudaSuccess;
  if (word == "alloc") return Allocate(std::strtoull(rest.c_str(), nullptr, 10));
  if (word == "free") return Free();
  if (word == "fetch") return Fetch(std::strtoull(rest.c_str(), nullptr, 10));
  if (word == "fork") return Fork();
  if (word == "close") {
    for (int fd = STDERR_FILENO + 1; fd < 64; ++fd) close(fd);
    return true;
  }
  return Mark(word, rest);
}

}  // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line) && line != "quit") {
    const size_t blank = line.find(' ');
    const std::string rest = blank == std::string::npos ? "" : line.substr(blank + 1);
    std::cout << (Obey(line.substr(0, blank), rest) ? "ok" : "failed") << " recording=" << gpumemshim_recording()
              << std::endl;
  }
  return 0;
}
