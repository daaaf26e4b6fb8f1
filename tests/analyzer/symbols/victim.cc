// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A small library whose return addresses are known together with what they mean: it is built with debug information,
// loaded by the tests, and looked up in every shape that a library can have on disk.

#include "victim.h"

#include <unistd.h>

namespace victim {
namespace {

VictimFrame g_frames[kVictimFrames];
int g_count = 0;

__attribute__((noinline)) void Record(const char* function, uint32_t line, bool inlined) {
  g_frames[g_count++] = {reinterpret_cast<uint64_t>(__builtin_return_address(0)), function, line, inlined};
  asm volatile("");
}

inline __attribute__((always_inline)) void Inlined() {
  Record("Inlined", __LINE__, true);
  asm volatile("");
}

inline __attribute__((always_inline)) void TwiceInlined() {
  Inlined();
  asm volatile("");
}

template <typename Function>
__attribute__((noinline)) void Templated(const Function& function) {
  function();
  Record("Templated", __LINE__, false);
  asm volatile("");
}

}  // namespace

struct Model {
  __attribute__((noinline)) void Forward(int) const {
    Record("victim::Model::Forward", __LINE__, false);
    asm volatile("");
  }
};

__attribute__((noinline)) void Run() {
  TwiceInlined();
  Templated([]() __attribute__((noinline)) {
    Record("operator()", __LINE__, false);
    asm volatile("");
  });
  Model().Forward(1);
  asm volatile("");
}

}  // namespace victim

extern "C" const VictimFrame* RunVictim(int* count) {
  victim::g_count = getpid() > 0 ? 0 : 1;  // a call through a stub of the dynamic linker
  victim::Run();
  *count = victim::g_count;
  return victim::g_frames;
}
