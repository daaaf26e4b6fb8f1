// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What the hooks of autograd told the stack (shim/stack/autograd_nodes.h), and what it answers them.

#ifndef GPUMEM_TESTS_SHIM_HOOKS_FAKE_STACK_H_
#define GPUMEM_TESTS_SHIM_HOOKS_FAKE_STACK_H_

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "shim/stack/autograd_nodes.h"
#include "shim/stack/capture.h"

namespace gpumemshim::stack {

struct FakeStack {
  bool nodes_enabled = true;
  uint64_t python = 0x9;   // what CapturePython returns
  uint64_t data = 0x7000;  // what DataOf returns
  std::vector<std::array<uint64_t, 3>> forwards;
  std::vector<std::pair<const void*, uint64_t>> uses;
  std::vector<const void*> entered;
};
extern FakeStack g_fake;

}  // namespace gpumemshim::stack

#endif  // GPUMEM_TESTS_SHIM_HOOKS_FAKE_STACK_H_
