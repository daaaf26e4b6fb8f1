// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// KnownPositions: the hash of the Python part of a stack. It is made of positions, which are addresses, and of contents
// of the code objects there, which tell them from others that had the same addresses. Contents cost more to read than
// the walk itself. So they are read once, and are known from the positions alone until a code object is freed.
//
//   positions ─┬─► known at this epoch ─► hash
//              └─► read the contents ───► hash, the same one; known from now on
//
// An entry that others pushed out is made again. All zero is the empty table, so fresh pages need no constructor.
//
// Thread-safety: one thread; the hash is the same for all threads. Failure: reads the contents.
//
//   const uint64_t hash = state->positions.Hash(python, innermost, room);

#ifndef GPUMEM_SHIM_STACK_KNOWN_POSITIONS_H_
#define GPUMEM_SHIM_STACK_KNOWN_POSITIONS_H_

#include <cstdint>

#include "shim/stack/dropped_code.h"
#include "shim/stack/hash.h"
#include "shim/stack/python_interpreter.h"
#include "shim/stack/successor_cache.h"

namespace gpumemshim::stack {

class KnownPositions {
 public:
  uint64_t Hash(const Interpreter& python, const PythonFrames& frames, uint32_t room) {
    const uint64_t epoch = CodeEpoch();  // first: what is freed later was on no stack of this thread
    const uint64_t positions = python.hash_frames.positions(frames, room);
    const uint64_t sum = positions + epoch * kHashSeed;
    const uint64_t key = sum == 0 ? 1 : sum;
    const auto* known = epoch == 0 ? nullptr : hashes_.Find(key, [](uint64_t) { return true; });
    if (known != nullptr) [[likely]]
      return known->payload;
    const uint64_t hash = Mix(positions, python.hash_frames.contents(frames, room));
    if (epoch != 0) {
      auto* entry = hashes_.Add(key);
      entry->payload = hash;
      entry->key = key;
    }
    return hash;
  }

 private:
  SuccessorCache<4096, uint64_t> hashes_;
};

}  // namespace gpumemshim::stack

#endif  // GPUMEM_SHIM_STACK_KNOWN_POSITIONS_H_
