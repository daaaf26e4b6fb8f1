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
// Direct mapped: an entry that another one pushed out is made again. All zero is the empty table, so fresh pages need
// no constructor.
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

namespace gpumemshim::stack {

class KnownPositions {
 public:
  uint64_t Hash(const Interpreter& python, const PythonFrames& frames, uint32_t room) {
    const uint64_t epoch = CodeEpoch();  // first: what is freed later was on no stack of this thread
    const uint64_t positions = python.hash_frames.positions(frames, room);
    const uint64_t key = positions + epoch * kHashSeed;
    Entry& entry = entries_[key >> kShift];
    if (entry.key == key && epoch != 0) [[likely]]
      return entry.hash;
    const uint64_t hash = Mix(positions, python.hash_frames.contents(frames, room));
    entry = {key, hash};
    return hash;
  }

 private:
  static constexpr uint32_t kEntries = 4096;
  static constexpr uint32_t kShift = 52;
  static_assert(uint64_t{1} << (64 - kShift) == kEntries);
  struct Entry {
    uint64_t key;
    uint64_t hash;
  };
  Entry entries_[kEntries];
};

}  // namespace gpumemshim::stack

#endif  // GPUMEM_SHIM_STACK_KNOWN_POSITIONS_H_
