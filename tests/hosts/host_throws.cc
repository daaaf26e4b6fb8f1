// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A C++ library for hosts that do not link C++ themselves, as Python loads them: throws and catches inside.

#include <stdexcept>

namespace {

[[gnu::noinline]] void Throw(int depth) {
  if (depth == 0) throw std::runtime_error("thrown");
  Throw(depth - 1);
  asm volatile("");  // no tail call: every depth is a frame to unwind
}

}  // namespace

extern "C" int ThrowAndCatch(int depth) {
  try {
    Throw(depth);
  } catch (const std::exception&) {
    return 1;
  }
  return 0;
}
