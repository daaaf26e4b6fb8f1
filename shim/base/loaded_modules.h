// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// LoadedModules: the native objects of this process, those that were unloaded included, each under a number that is
// never used again for other code. What was remembered about an address holds as long as the code there does: a library
// unloaded and another one loaded in its place is what this table exists to notice.
//
//   #1 /usr/bin/prog   [------)
//   #2 liba.so                   [------)  gone
//   #3 libb.so                   [---------)          replaced: #2 had stood in a stack
//
// Changes are noticed by polling the C library's count of loads, a word inside its loader that is looked for at set-up
// and believed as long as it agrees with dl_iterate_phdr; where there is no such word, dl_iterate_phdr itself is asked.
// The same object again at the same place keeps its number: equal build id, or equal unwind tables where it has none.
//
// Thread-safety: all from any thread; Look waits a bounded time for another one's Look. No heap; Look takes the
// loader's list lock. Failure: past kMaxModules, or where a Look could not be had, numbers are 0 = not known.
//
//   if (modules::MayHaveChanged() && !modules::Look()) return;   // an address may mean anything now
//   uint32_t number = modules::NumberOf(pc);

#ifndef GPUMEM_SHIM_BASE_LOADED_MODULES_H_
#define GPUMEM_SHIM_BASE_LOADED_MODULES_H_

#include <atomic>
#include <cstdint>

namespace gpumemshim::modules {

inline constexpr uint32_t kMaxModules = 4096;
inline constexpr uint32_t kMaxBuildIdBytes = 32;
inline constexpr uint32_t kMaxPathBytes = uint32_t{512} << 10;  // of all together
inline constexpr uint32_t kMaxRanges = 64;

struct Module {
  uint64_t start;  // first mapped address
  uint64_t end;    // one past the last
  uint64_t load_bias;
  uint64_t time_ns;  // of the last look that did not see it: it was loaded after that
  uint64_t content;  // of its unwind tables; 0 where a build id says more
  const char* path;  // "" for the program itself, and where there was no room
  uint32_t build_id_bytes;
  uint8_t build_id[kMaxBuildIdBytes];
};

// At set-up, outside of the loader and of any allocator's lock.
void Prepare();

// Brings the table up to date. False: somebody else was at it for too long.
bool Look();

uint32_t Count();
const Module& At(uint32_t number);  // 1 .. Count()

// The module that holds `pc` now, 0 where none does. It counts as used from then on.
uint32_t NumberOf(uint64_t pc);

// Number of times that code which had been used was replaced by other code.
uint64_t Epoch();

// Addresses about which an unwinder that remembers may be wrong: in code that replaced other code, and outside of all
// modules (generated code). NoteForeign is called for the latter; false where that place was known already.
bool IsIrregular(uint64_t pc);
bool IsForeign(uint64_t pc);
bool NoteForeign(uint64_t pc);

void ForgetInChild();  // of the lock alone: what is loaded is the same

struct LoaderWords {
  static constexpr uint32_t kMax = 4;
  std::atomic<const uint64_t*> words[kMax];
  std::atomic<uint64_t> sum;  // of the words, at the last look
};
extern LoaderWords g_loader;
extern std::atomic<uint32_t> g_range_count;

// Cheap enough for every event. Loads after the loader's own stores, by what makes the loaded code callable at all.
inline bool MayHaveChanged() {
  uint64_t sum = 0;
  for (const auto& word : g_loader.words) {
    sum += __atomic_load_n(word.load(std::memory_order_relaxed), __ATOMIC_RELAXED);
  }
  return sum != g_loader.sum.load(std::memory_order_relaxed);
}

inline bool HasIrregular() { return g_range_count.load(std::memory_order_acquire) != 0; }

}  // namespace gpumemshim::modules

#endif  // GPUMEM_SHIM_BASE_LOADED_MODULES_H_
