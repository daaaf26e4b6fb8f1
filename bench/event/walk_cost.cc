// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Loaded by walk_cost.py through ctypes: walks the calling thread's Python frames as every recorded event does, again
// and again, and returns the time of one walk.

#include <time.h>

#include <cstdint>

#include "shim/stack/known_positions.h"
#include "shim/stack/python_walk.h"

namespace {

double Now() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

}  // namespace

// Nanoseconds a walk, the least of several rounds; negative where the interpreter is not read.
extern "C" __attribute__((visibility("default"))) double WalkCost(int walks) {
  using namespace gpumemshim::stack;
  constexpr int kRounds = 7;
  static KnownPositions positions;
  double least = -1;
  for (int round = 0; round < kRounds; ++round) {
    const Interpreter* python = FindInterpreter();
    if (python == nullptr) return -1;
    uint64_t hash = 0;
    const double start = Now();
    for (int i = 0; i < walks; ++i) hash += positions.Hash(*python, {InnermostPythonFrame(*python), nullptr}, 512);
    const double cost = (Now() - start) / walks;
    __asm__ volatile("" : : "r"(hash));
    if (least < 0 || cost < least) least = cost;
  }
  return least;
}
