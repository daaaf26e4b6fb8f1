// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The capture in a library of its own, as it is in a program: its own frames do not count, those of the test do.

#ifndef GPUMEM_TESTS_SHIM_STACK_TORTURE_PROBE_H_
#define GPUMEM_TESTS_SHIM_STACK_TORTURE_PROBE_H_

#include <cstddef>
#include <cstdint>

struct Captured {
  uint64_t hash;
  uint64_t caller;  // return address of ProbeCapture
};

extern "C" {
// "libunwind", "libgcc", "fp". Returns what is used.
const char* ProbeEnable(const char* unwinder);
Captured ProbeCapture();
// The hash of a stack of these frames, as of now.
uint64_t ProbeHash(const uint64_t* pcs, size_t count);
// The frames that this thread sent last; returns how many. *cut: the last is the mark of a cut, and not among them.
size_t ProbeSent(uint64_t* pcs, uint32_t* modules, size_t capacity, bool* cut);
uint64_t ProbeEpoch();
uint64_t ProbeHits();
void ProbeForked();
}

#endif  // GPUMEM_TESTS_SHIM_STACK_TORTURE_PROBE_H_
