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
// What a path compares is memory that nobody else keeps warm, and a training step has a thousand paths: their words
// came to twice a core's cache. So a word is four bytes, its place and its value's number; values are few, since stacks
// share their callers, and lie in one table.
//
//   const Path* path = cache.Find(PathKey(frame, position), frame);
//   if (path == nullptr && cache.IsWorthLearning(key, hash) && LearnPath(frame, pcs, count, true, &lesson))
//     cache.Keep(key, lesson, {hash, first, count, cut});

#ifndef GPUMEM_SHIM_STACK_PATH_CACHE_H_
#define GPUMEM_SHIM_STACK_PATH_CACHE_H_

#include <cstdint>

#include "shim/stack/hash.h"
#include "shim/stack/successor_cache.h"

namespace gpumemshim::stack {

inline constexpr uint32_t kMaxChecks = 96;
enum class Word : uint8_t { kReturnAddress, kOther };

// A path as it is learned: the words that tell it, from the innermost out.
struct Lesson {
  uintptr_t frame = 0;  // the anchor: where the capturing function saved its caller's frame pointer
  uint32_t checks = 0;
  uint16_t place[kMaxChecks];  // in words from the anchor
  uint64_t value[kMaxChecks];
  Word word[kMaxChecks];

  // False where there is no room.
  bool Add(uintptr_t address, uint64_t value, Word word);
};

// What a path tells.
struct PathFacts {
  uint64_t hash;   // of the frames that count
  uint16_t first;  // return addresses in front of those that count: our own frames
  uint16_t count;
  bool cut;  // there are callers that were not found
};

struct Path {
  uintptr_t frame;
  PathFacts facts;
  uint32_t checks;  // a multiple of kTurn: the last one is repeated
  struct Check {
    uint16_t place;
    uint16_t number;  // of its value
  };
  Check check[kMaxChecks];
  Word word[kMaxChecks];

  static constexpr uint32_t kTurn = 4;
  static_assert(kMaxChecks % kTurn == 0);

  bool Stands(const Check& at, const uint64_t* values) const {
    return reinterpret_cast<const volatile uint64_t*>(frame)[at.place] == values[at.number];
  }

  // Every event's inner loop, so four words a turn; in order, since a word's place follows from those before it.
  bool Holds(const uint64_t* values) const {
    for (const Check *at = check, *end = check + checks; at != end; at += kTurn) {
      if (!Stands(at[0], values) || !Stands(at[1], values) || !Stands(at[2], values) || !Stands(at[3], values))
        return false;
    }
    return true;
  }
};

// The values of all paths, each once. Numbers follow each other, so those in use lie together.
class PathValues {
 public:
  // The number of a value; false where there is no room for another.
  bool NumberOf(uint64_t value, uint16_t* number);
  void Clear();
  const uint64_t* values() const { return values_; }

 private:
  static constexpr uint32_t kMax = 1u << 15;
  static constexpr uint32_t kSlots = 2 * kMax;
  uint32_t count_;
  uint64_t values_[kMax];
  uint16_t slots_[kSlots];  // number + 1, by the value's hash; 0 = empty
};

// `position` tells apart what calls in from the same depth; any number will do.
inline uint64_t PathKey(uintptr_t frame, uint64_t position) { return Fold(frame ^ kHashSeed, position | 1) | 1; }

class PathCache {
 public:
  const Path* Find(uint64_t key, uintptr_t frame) {
    const uint64_t* values = values_.values();
    const auto* entry =
        paths_.Find(key, [frame, values](const Path& path) { return path.frame == frame && path.Holds(values); });
    if (entry == nullptr) return nullptr;
    ++hits_;
    Fetch(paths_.Expected());
    return &entry->payload;
  }

  // Learning costs as much as fifty hits save. So a path is learned when it is met again, and only as long as hits pay
  // for it. A few lessons are given for misses too, or a program whose first phase used them up would learn no more.
  bool IsWorthLearning(uint64_t key, uint64_t hash);

  // Learning it failed, and would again.
  void Refuse(uint64_t key, uint64_t hash);

  uint64_t hits() const { return hits_; }

  void Keep(uint64_t key, const Lesson& lesson, const PathFacts& facts);

  // The return addresses that count; returns how many.
  uint32_t CopyFrames(const Path& path, void** out) const;

 private:
  bool Fill(Path* path, const Lesson& lesson);

  // What the next event most likely compares: it has the time until then to come into the cache.
  static void Fetch(const void* path) {
    for (uint32_t line = 0; line < kFetchedLines; ++line)
      __builtin_prefetch(static_cast<const char*>(path) + line * size_t{64});
  }

  static constexpr uint32_t kFetchedLines = 4;
  static constexpr uint32_t kPaths = 1024;
  static constexpr uint32_t kCandidates = 1024;
  static constexpr uint64_t kFreeLessons = 1024;
  static constexpr uint64_t kHitsALesson = 64;
  static constexpr uint64_t kMissesALesson = 256;

  bool busy_;  // Keep runs: a signal handler in the middle of it keeps nothing
  uint64_t hits_;
  uint64_t misses_;
  uint64_t lessons_;
  uint64_t candidates_[kCandidates];
  SuccessorCache<kPaths, Path> paths_;
  PathValues values_;
};

// Fills `lesson` for the stack whose return addresses from the anchor's outwards are pcs[0 .. count); `whole` where
// that is all of the stack. Walks it step by step (10 us and more). False where it is not of the kind that can be told
// again by its words: signal frames, an unwinder that disagrees with itself, another architecture.
bool LearnPath(uintptr_t frame, void* const* pcs, uint32_t count, bool whole, Lesson* lesson);

// At set-up. False: LearnPath will always return false.
bool LoadStepper(void* libunwind);

}  // namespace gpumemshim::stack

#endif  // GPUMEM_SHIM_STACK_PATH_CACHE_H_
