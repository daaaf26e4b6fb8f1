// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What victim.cc tells of itself. Found by dlsym, so that the tests do not link it.

#ifndef GPUMEM_TESTS_ANALYZER_SYMBOLS_VICTIM_H_
#define GPUMEM_TESTS_ANALYZER_SYMBOLS_VICTIM_H_

#include <cstdint>

inline constexpr int kVictimFrames = 8;

struct VictimFrame {
  uint64_t pc;           // a return address
  const char* function;  // part of the innermost function's name there
  uint32_t line;         // of the call
  bool inlined;          // that function is inlined into its caller
};

extern "C" __attribute__((visibility("default"))) const VictimFrame* RunVictim(int* count);

#endif  // GPUMEM_TESTS_ANALYZER_SYMBOLS_VICTIM_H_
