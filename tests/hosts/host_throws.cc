// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A C++ library for hosts that do not link C++ themselves, as Python loads them: throws and catches inside, also around
// a function of the host's; or throws out of itself, for hosts that catch.

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

extern "C" void ThrowOut(int depth) { Throw(depth); }

// The answer of `call`, in the handler of an exception that was thrown after it had come back once.
extern "C" int CallThrowCall(int (*call)(int), int depth) {
  try {
    call(depth);
    Throw(depth);
  } catch (const std::exception&) {
    return call(depth + 1);
  }
  return -1;
}
