// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/stack/path_cache.h"

#include <dlfcn.h>
#include <ucontext.h>

#include <atomic>
#include <cstring>

#include "shim/stack/memory_read.h"
#include "shim/stack/unwinder_memory.h"

namespace gpumemshim::stack {

bool Lesson::Add(uintptr_t address, uint64_t of, Word kind) {
  const uintptr_t offset = address - frame;
  if (checks == kMaxChecks || offset % sizeof(uint64_t) != 0 || offset / sizeof(uint64_t) > UINT16_MAX) return false;
  place[checks] = static_cast<uint16_t>(offset / sizeof(uint64_t));
  value[checks] = of;
  word[checks++] = kind;
  return true;
}

bool PathValues::NumberOf(uint64_t value, uint16_t* number) {
  uint64_t slot = Mix(kHashSeed, value) % kSlots;
  for (; slots_[slot] != 0; slot = (slot + 1) % kSlots) {
    *number = static_cast<uint16_t>(slots_[slot] - 1);
    if (values_[*number] == value) return true;
  }
  if (count_ == kMax) return false;
  *number = static_cast<uint16_t>(count_);
  values_[count_++] = value;
  slots_[slot] = static_cast<uint16_t>(count_);
  return true;
}

void PathValues::Clear() {
  count_ = 0;
  std::memset(slots_, 0, sizeof slots_);
}

uint32_t PathCache::CopyFrames(const Path& path, void** out) const {
  uint32_t seen = 0;
  uint32_t copied = 0;
  for (uint32_t i = 0; i < path.checks && copied < path.facts.count; ++i) {
    if (path.word[i] != Word::kReturnAddress || seen++ < path.facts.first) continue;
    out[copied++] = reinterpret_cast<void*>(values_.values()[path.check[i].number]);
  }
  return copied;
}

bool PathCache::IsWorthLearning(uint64_t key, uint64_t hash) {
  if (lessons_ >= kFreeLessons + hits_ / kHitsALesson + ++misses_ / kMissesALesson) return false;
  uint64_t& candidate = candidates_[(key ^ hash) % kCandidates];
  const uint64_t name = key ^ hash;
  if (candidate == ~name) return false;
  const bool again = candidate == name;
  candidate = name;
  if (again) ++lessons_;
  return again;
}

void PathCache::Refuse(uint64_t key, uint64_t hash) { candidates_[(key ^ hash) % kCandidates] = ~(key ^ hash); }

// False where there is no room for its values.
bool PathCache::Fill(Path* path, const Lesson& lesson) {
  path->frame = lesson.frame;
  path->checks = 0;
  for (uint32_t i = 0; i < lesson.checks; ++i) {
    Path::Check& check = path->check[path->checks];
    check.place = lesson.place[i];
    if (!values_.NumberOf(lesson.value[i], &check.number)) return false;
    path->word[path->checks++] = lesson.word[i];
  }
  for (; path->checks % Path::kTurn != 0; ++path->checks) {
    path->check[path->checks] = path->check[path->checks - 1];
    path->word[path->checks] = Word::kOther;
  }
  return true;
}

void PathCache::Keep(uint64_t key, const Lesson& lesson, const PathFacts& facts) {
  if (busy_) return;
  busy_ = true;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  auto* entry = paths_.Add(key);
  if (!Fill(&entry->payload, lesson)) {  // a program of very many places: all begins anew
    paths_.Clear();
    values_.Clear();
    entry = paths_.Add(key);
    Fill(&entry->payload, lesson);
  }
  entry->payload.facts = facts;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  entry->key = key;
  busy_ = false;
}

#if defined(__x86_64__)

namespace {

// libunwind's public interface, declared here since we do not link with it.
constexpr int kRbp = 6;
constexpr int kRsp = 7;
constexpr int kRip = 16;
struct Cursor {
  uint64_t opaque[127];
};
struct SaveLocation {
  int type;
  uint64_t address;
  uint64_t extra[8];
};
constexpr int kInMemory = 1;

struct Stepper {
  int (*get_context)(ucontext_t*);
  int (*init_local)(Cursor*, ucontext_t*);
  int (*step)(Cursor*);
  int (*get_reg)(Cursor*, int, uint64_t*);
  int (*get_save_location)(Cursor*, int, SaveLocation*);
  int (*is_signal_frame)(Cursor*);
};
Stepper g_stepper;
std::atomic<bool> g_loaded{false};

constexpr uint32_t kMaxInnerFrames = 8;
// What gcc keeps of the caller's stack pointer in a realigned frame lies this near below its frame pointer.
constexpr uintptr_t kRealignBytes = 128;

struct Registers {
  uint64_t rip;
  uint64_t rsp;
  uint64_t rbp;
};

bool Read(Cursor* cursor, Registers* out) {
  return g_stepper.get_reg(cursor, kRip, &out->rip) == 0 && g_stepper.get_reg(cursor, kRsp, &out->rsp) == 0 &&
         g_stepper.get_reg(cursor, kRbp, &out->rbp) == 0;
}

// The address of the word that holds this frame's rbp; 0 where there is none.
uint64_t FramePointerSlot(Cursor* cursor) {
  SaveLocation saved{};
  const bool known = g_stepper.get_save_location(cursor, kRbp, &saved) == 0 && saved.type == kInMemory;
  return known ? saved.address : 0;
}

bool AddFramePointer(uint64_t slot, uint64_t rbp, Lesson* lesson) {
  if (slot < lesson->frame || Load<uint64_t>(reinterpret_cast<void*>(slot), 0) != rbp) return false;
  return lesson->Add(slot, rbp, Word::kOther);
}

// In a frame that gcc realigned, the word below its frame pointer from which the caller's stack pointer is taken.
bool AddRealignment(const Registers& inner, uint64_t caller_rsp, Lesson* lesson) {
  const uintptr_t lowest = inner.rbp - inner.rsp < kRealignBytes ? inner.rsp : inner.rbp - kRealignBytes;
  for (uintptr_t slot = (lowest + 7) & ~uintptr_t{7}; slot + 8 <= inner.rbp; slot += 8) {
    if (Load<uint64_t>(reinterpret_cast<void*>(slot), 0) != caller_rsp) continue;
    if (!lesson->Add(slot, caller_rsp, Word::kOther)) return false;
  }
  return true;
}

// One step outwards, with the words that it rests on: a frame found by rbp has it point into itself.
bool StepAndAdd(Cursor* cursor, uint64_t expected, Lesson* lesson) {
  Registers inner;
  Registers outer;
  if (!Read(cursor, &inner) || g_stepper.is_signal_frame(cursor) > 0) return false;
  const uint64_t rbp_slot = FramePointerSlot(cursor);
  if (g_stepper.step(cursor) <= 0 || !Read(cursor, &outer)) return false;
  if (outer.rip != expected || outer.rsp < inner.rsp + sizeof(uint64_t) || outer.rsp % 8 != 0) return false;
  if (inner.rbp >= inner.rsp && inner.rbp < outer.rsp) {
    if (!AddFramePointer(rbp_slot, inner.rbp, lesson)) return false;
    if (outer.rsp != inner.rbp + 16 && !AddRealignment(inner, outer.rsp, lesson)) return false;
  }
  const uintptr_t slot = outer.rsp - sizeof(uint64_t);
  return Load<uint64_t>(reinterpret_cast<void*>(slot), 0) == expected &&
         lesson->Add(slot, expected, Word::kReturnAddress);
}

// From here out to the frame that called the anchor's function.
bool StepToAnchor(Cursor* cursor, uintptr_t frame) {
  const uint64_t wanted = frame + 2 * sizeof(uint64_t);
  for (uint32_t i = 0; i < kMaxInnerFrames; ++i) {
    Registers registers;
    if (g_stepper.step(cursor) <= 0 || !Read(cursor, &registers)) return false;
    if (registers.rsp >= wanted) return registers.rsp == wanted;
  }
  return false;
}

}  // namespace

bool LoadStepper(void* libunwind) {
  g_stepper.get_context = reinterpret_cast<int (*)(ucontext_t*)>(dlsym(libunwind, "_Ux86_64_getcontext"));
  g_stepper.init_local = reinterpret_cast<int (*)(Cursor*, ucontext_t*)>(dlsym(libunwind, "_ULx86_64_init_local"));
  g_stepper.step = reinterpret_cast<int (*)(Cursor*)>(dlsym(libunwind, "_ULx86_64_step"));
  g_stepper.get_reg = reinterpret_cast<int (*)(Cursor*, int, uint64_t*)>(dlsym(libunwind, "_ULx86_64_get_reg"));
  g_stepper.get_save_location =
      reinterpret_cast<int (*)(Cursor*, int, SaveLocation*)>(dlsym(libunwind, "_ULx86_64_get_save_loc"));
  g_stepper.is_signal_frame = reinterpret_cast<int (*)(Cursor*)>(dlsym(libunwind, "_ULx86_64_is_signal_frame"));
  const bool all = g_stepper.get_context != nullptr && g_stepper.init_local != nullptr && g_stepper.step != nullptr &&
                   g_stepper.get_reg != nullptr && g_stepper.get_save_location != nullptr &&
                   g_stepper.is_signal_frame != nullptr;
  if (!all) dlerror();
  g_loaded.store(all, std::memory_order_release);
  return all;
}

bool LearnPath(uintptr_t frame, void* const* pcs, uint32_t count, bool whole, Lesson* lesson) {
  if (!g_loaded.load(std::memory_order_acquire) || count == 0) return false;
  lesson->frame = frame;
  lesson->checks = 0;
  const PagesOnce once;
  ucontext_t context;
  Cursor cursor;
  if (g_stepper.get_context(&context) != 0 || g_stepper.init_local(&cursor, &context) != 0) return false;
  if (!StepToAnchor(&cursor, frame)) return false;
  const uintptr_t first_slot = frame + sizeof(uint64_t);
  const auto first = reinterpret_cast<uint64_t>(pcs[0]);
  if (Load<uint64_t>(reinterpret_cast<void*>(first_slot), 0) != first ||
      !lesson->Add(first_slot, first, Word::kReturnAddress))
    return false;
  for (uint32_t i = 1; i < count; ++i) {
    if (!StepAndAdd(&cursor, reinterpret_cast<uint64_t>(pcs[i]), lesson)) return false;
  }
  if (!whole) return true;
  // The outermost frame must be found to be the outermost again, for which an unwinder may look at rbp.
  Registers last;
  const uint64_t rbp_slot = FramePointerSlot(&cursor);
  if (!Read(&cursor, &last) || g_stepper.step(&cursor) > 0) return false;
  return rbp_slot == 0 || AddFramePointer(rbp_slot, last.rbp, lesson);
}

#else

bool LoadStepper(void*) { return false; }
bool LearnPath(uintptr_t, void* const*, uint32_t, bool, Lesson*) { return false; }

#endif

}  // namespace gpumemshim::stack
