// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// PathCache: native stacks that this thread was seen with, and how to tell at a nanosecond a frame that it has one of
// them again. Unwinding is a function of the registers at its start and of the words that it reads; a Path keeps those
// words, so a path of which every word still stands is what the unwinder would find now:
//
//   anchor ─► [return address] ─► [return address] ─► [saved rbp, where a frame is found by it] ─► ... ─► the end
//
// Words are compared from the innermost out and the first that differs ends it. Each one's place follows from those
// before it, so nothing is read that the unwinder would not read. docs/event-cost.md has the argument.
//
// Thread-safety: one thread. All zero is the empty cache, so fresh pages need no constructor. Failure: finds nothing.
//
//   const Path* path = cache.Find(PathKey(frame, position), frame);
//   if (path == nullptr && cache.IsWorthLearning(key, hash)) LearnPath(frame, pcs, count, cache.Replace(key));

#ifndef GPUMEM_SHIM_STACK_PATH_CACHE_H_
#define GPUMEM_SHIM_STACK_PATH_CACHE_H_

#include <cstdint>

#include "shim/stack/hash.h"

namespace gpumemshim::stack {

struct Path {
  static constexpr uint32_t kMaxChecks = 96;
  enum class Word : uint8_t { kReturnAddress, kOther };

  uint64_t key;     // 0 = empty
  uintptr_t frame;  // the anchor: where the capturing function saved its caller's frame pointer
  uint64_t hash;    // of the frames that count
  uint16_t checks;
  uint16_t first;  // return addresses in front of those that count: our own frames
  uint16_t count;
  bool cut;  // there are callers that were not found
  struct Check {
    uint64_t offset;  // from the anchor, in bytes
    uint64_t value;
  };
  Check check[kMaxChecks];
  Word words[kMaxChecks];

  bool Stands(const Check& word) const {
    return *reinterpret_cast<const volatile uint64_t*>(frame + word.offset) == word.value;
  }

  // Every event's inner loop, so two words a turn; in order, since a word's place follows from those before it.
  bool Holds() const {
    const Check* at = check;
    const Check* const end = check + checks;
    for (; end - at >= 2; at += 2) {
      if (!Stands(at[0]) || !Stands(at[1])) return false;
    }
    return at == end || Stands(*at);
  }

  // False where there is no room.
  bool Add(uintptr_t address, uint64_t value, Word word);

  // The return addresses that count; returns how many.
  uint32_t CopyFrames(void** out) const;
};

// `position` tells apart what calls in from the same depth; any number will do.
inline uint64_t PathKey(uintptr_t frame, uint64_t position) { return Fold(frame ^ kHashSeed, position | 1) | 1; }

class PathCache {
 public:
  const Path* Find(uint64_t key, uintptr_t frame) {
    const Path* set = paths_[key >> kSetShift];
    for (uint32_t way = 0; way < kWays; ++way) {
      if (set[way].key != key || set[way].frame != frame || !set[way].Holds()) continue;
      ++hits_;
      return &set[way];
    }
    return nullptr;
  }

  // Learning costs as much as fifty hits save. So a path is learned when it is met again, and only as long as hits pay
  // for it. A few lessons are given for misses too, or a program whose first phase used them up would learn no more.
  bool IsWorthLearning(uint64_t key, uint64_t hash);

  // Learning it failed, and would again.
  void Refuse(uint64_t key, uint64_t hash);

  uint64_t hits() const { return hits_; }

  // An entry to fill, empty until its key is set.
  Path* Replace(uint64_t key);

 private:
  static constexpr uint32_t kSets = 256;
  static constexpr uint32_t kSetShift = 56;
  static constexpr uint32_t kWays = 4;
  static constexpr uint32_t kCandidates = 1024;
  static constexpr uint64_t kFreeLessons = 1024;
  static constexpr uint64_t kHitsALesson = 64;
  static constexpr uint64_t kMissesALesson = 256;

  uint64_t hits_;
  uint64_t misses_;
  uint64_t lessons_;
  uint64_t candidates_[kCandidates];
  Path paths_[kSets][kWays];
};

// Fills `path` for the stack whose return addresses from the anchor's outwards are pcs[0 .. count); `whole` where that
// is all of the stack. Walks it step by step (10 us and more). False where it is not of the kind that can be told again
// by its words: signal frames, an unwinder that disagrees with itself, another architecture.
bool LearnPath(uintptr_t frame, void* const* pcs, uint32_t count, bool whole, Path* path);

// At set-up. False: LearnPath will always return false.
bool LoadStepper(void* libunwind);

}  // namespace gpumemshim::stack

#endif  // GPUMEM_SHIM_STACK_PATH_CACHE_H_
