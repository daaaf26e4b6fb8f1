// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/control/open_ranges.h"

#include <sched.h>

#include <atomic>
#include <cstring>

namespace gpumemshim::control {
namespace {

struct Note {
  EventKind kind;
  ApiId api;
  uint32_t tid;
  uint32_t size;
  bool has_text;
  uint64_t number;
  char text[kMaxNoteBytes];
};

Note g_notes[kMaxNotes];
uint32_t g_count;
std::atomic<uint32_t> g_busy;

class Flag {
 public:
  Flag() {
    for (int i = 0; i < 1000 && !held_; ++i) {
      held_ = g_busy.exchange(1, std::memory_order_acquire) == 0;
      if (!held_) sched_yield();
    }
  }
  ~Flag() {
    if (held_) g_busy.store(0, std::memory_order_release);
  }
  Flag(const Flag&) = delete;
  Flag& operator=(const Flag&) = delete;
  bool held() const { return held_; }

 private:
  bool held_ = false;
};

void Remove(uint32_t index) {
  --g_count;
  std::memmove(&g_notes[index], &g_notes[index + 1], (g_count - index) * sizeof(Note));
}

// The last note of this kind, of this thread (0 = of any) and number (0 = any); kMaxNotes where there is none.
uint32_t FindLast(EventKind kind, uint32_t tid, uint64_t number) {
  for (uint32_t i = g_count; i-- > 0;) {
    const Note& note = g_notes[i];
    if (note.kind == kind && (tid == 0 || note.tid == tid) && (number == 0 || note.number == number)) return i;
  }
  return kMaxNotes;
}

// True where the mark only takes back what an earlier note says.
bool Cancels(const Mark& mark, uint32_t tid) {
  uint32_t index = kMaxNotes;
  if (mark.kind == EventKind::kRangePop) index = FindLast(EventKind::kRangePush, tid, 0);
  if (mark.kind == EventKind::kRangeEnd) index = FindLast(EventKind::kRangeStart, 0, mark.number);
  if (index == kMaxNotes) return false;
  Remove(index);
  return true;
}

// A step or tag replaces the one before.
void Replace(const Mark& mark, uint32_t tid) {
  uint32_t index = kMaxNotes;
  if (mark.kind == EventKind::kStep) index = FindLast(EventKind::kStep, 0, 0);
  if (mark.kind == EventKind::kTag) index = FindLast(EventKind::kTag, tid, 0);
  if (index != kMaxNotes) Remove(index);
}

}  // namespace

void NoteMark(const Mark& mark, uint32_t tid) {
  if (mark.kind == EventKind::kMark || mark.kind >= EventKind::kRecordingStart) return;  // an instant leaves nothing
  const Flag flag;
  if (!flag.held() || Cancels(mark, tid)) return;
  Replace(mark, tid);
  if (g_count == kMaxNotes) return;
  Note& note = g_notes[g_count++];
  note.kind = mark.kind;
  note.api = mark.api;
  note.tid = tid;
  note.number = mark.number;
  note.has_text = mark.text != nullptr;
  note.size = static_cast<uint32_t>(mark.size < kMaxNoteBytes ? mark.size : kMaxNoteBytes);
  if (note.has_text) std::memcpy(note.text, mark.text, note.size);
}

void TakeNotes(void (*tell)(const Mark& mark)) {
  const Flag flag;
  if (!flag.held()) return;
  for (uint32_t i = 0; i < g_count; ++i) {
    const Note& note = g_notes[i];
    tell({note.kind, note.has_text ? note.text : nullptr, note.size, note.number, note.tid, note.api});
  }
  g_count = 0;
}

void ForgetNotes() {
  g_count = 0;
  g_busy.store(0, std::memory_order_relaxed);
}

}  // namespace gpumemshim::control
