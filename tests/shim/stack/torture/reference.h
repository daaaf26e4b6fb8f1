// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The slow unwinder that ours is compared with: libdw on the running thread itself. It has nothing in common with
// libunwind or libgcc, keeps no cache by address, and reads each library's tables from its file.
//
// Thread-safety: one call at a time.
//
//   ucontext_t here; getcontext(&here); std::vector<uint64_t> pcs = Reference(here);

#ifndef GPUMEM_TESTS_SHIM_STACK_TORTURE_REFERENCE_H_
#define GPUMEM_TESTS_SHIM_STACK_TORTURE_REFERENCE_H_

#include <ucontext.h>

#include <cstdint>
#include <vector>

// The frame of the context first, then return addresses, at most `limit` in all.
std::vector<uint64_t> Reference(const ucontext_t& context, size_t limit);

#endif  // GPUMEM_TESTS_SHIM_STACK_TORTURE_REFERENCE_H_
