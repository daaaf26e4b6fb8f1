// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "probe.h"

#include <cstring>

#include "shim/base/loaded_modules.h"
#include "shim/stack/capture.h"
#include "shim/stack/hash.h"
#include "shim/stack/thread_state.h"

using namespace gpumemshim;
using namespace gpumemshim::stack;

#define EXPORT extern "C" __attribute__((visibility("default"), noinline))

EXPORT const char* ProbeEnable(const char* unwinder) {
  Options options;
  options.python = false;
  if (std::strcmp(unwinder, "libgcc") == 0) options.unwinder = Unwinder::kLibgcc;
  if (std::strcmp(unwinder, "fp") == 0) options.unwinder = Unwinder::kFramePointers;
  Enable(options);
  return UnwinderName(CurrentUnwinder());
}

EXPORT Captured ProbeCapture() {
  const auto caller = reinterpret_cast<uint64_t>(__builtin_return_address(0));
  std::memset(CurrentThread()->frames, 0, sizeof CurrentThread()->frames);
  const Captured captured{Capture(), caller};
  __asm__ volatile("" ::: "memory");
  return captured;
}

EXPORT uint64_t ProbeHash(const uint64_t* pcs, size_t count) {
  uint64_t hash = kHashSeed + modules::Epoch();
  for (size_t i = 0; i < count; ++i) hash = Append(hash, pcs[i]);
  return Finish(hash);
}

EXPORT size_t ProbeSent(uint64_t* pcs, uint32_t* numbers, size_t capacity, bool* cut) {
  const ThreadState* state = CurrentThread();
  *cut = false;
  size_t count = 0;
  for (; count < capacity && state->frames[count].pc != 0; ++count) {
    pcs[count] = state->frames[count].pc;
    numbers[count] = state->frames[count].instruction;
  }
  *cut = state->frames[count].flags == ring::kFrameCut;
  return count;
}

EXPORT uint64_t ProbeEpoch() { return modules::Epoch(); }

EXPORT uint64_t ProbeHits() { return CurrentThread()->paths.hits(); }

EXPORT void ProbeForked() { ForgetInChild(); }
