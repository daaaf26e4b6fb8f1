// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/control/marks.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "shared/event.h"
#include "shim/base/api.h"
#include "shim/base/calls/scope.h"
#include "shim/control/open_ranges.h"
#include "shim/ring/ring.h"
#include "shim/stack/capture.h"
#include "shim/stack/hash.h"

namespace gpumemshim::control {
namespace {

// Texts that are in the ring or the file: direct mapped and lossy, since a repeat is harmless. Whoever reads a key here
// (acquire) sees the record that its sender committed before it stored the key (release).
constexpr size_t kSlots = 2048;
std::atomic<uint64_t> g_sent[kSlots];

std::atomic<uint64_t> g_failed_callbacks;

bool IsFailedCallback(const Mark& mark) {
  constexpr size_t kSize = sizeof gpumem::format::kFailedCallbackMark - 1;
  return mark.kind == EventKind::kMark && mark.size >= kSize && mark.text != nullptr &&
         std::memcmp(mark.text, gpumem::format::kFailedCallbackMark, kSize) == 0;
}

uint64_t KeyOf(const char* text, size_t size) {
  uint64_t key = stack::kHashSeed ^ size;
  for (; size >= 8; text += 8, size -= 8) {
    uint64_t word;
    std::memcpy(&word, text, 8);
    key = stack::Mix(key, word);
  }
  uint64_t rest = 0;
  if (size > 0) std::memcpy(&rest, text, size);
  return stack::Finish(stack::Mix(key, rest));
}

// 0 where there is no text, or the ring took no more.
uint64_t SendText(const char* text, size_t size) {
  if (text == nullptr) return 0;
  if (size > ring::kMaxTextBytes) size = ring::kMaxTextBytes;
  const uint64_t key = KeyOf(text, size);
  std::atomic<uint64_t>& slot = g_sent[key % kSlots];
  if (slot.load(std::memory_order_acquire) == key) return key;
  if (!ring::RecordText(key, text, static_cast<uint32_t>(size))) return 0;
  slot.store(key, std::memory_order_release);
  return key;
}

bool Send(const Mark& mark) {
  Event event = MakeEvent(mark.api, mark.kind, Memory::kDevice);
  event.layer = Layer::kUnspecified;
  event.handle = mark.number;
  event.stream = mark.tid;
  event.text = SendText(mark.text, mark.size);
  // Where it was said; for stages their name is enough, and they come often.
  if (mark.kind == EventKind::kMark) event.stack = stack::Capture();
  return ring::Record(event);
}

}  // namespace

bool RecordMark(const Mark& mark) {
  const calls::ErrnoSaver saver;
  const calls::Scope scope;
  if (IsFailedCallback(mark)) g_failed_callbacks.fetch_add(1, std::memory_order_relaxed);
  if (ring::Active()) {
    if (Send(mark)) return true;
    if (ring::Active()) return false;  // full, and counted there
  }
  const auto tid = mark.tid != 0 ? mark.tid : static_cast<uint32_t>(syscall(SYS_gettid));
  NoteMark(mark, tid);
  return false;
}

void RecordName(uint64_t address, uint64_t bytes, const char* text, size_t size) {
  const calls::ErrnoSaver saver;
  const calls::Scope scope;
  if (!ring::Active() || address == 0) return;
  Event event = MakeEvent(ApiId::kNone, EventKind::kTensor, Memory::kDevice);
  event.layer = Layer::kUnspecified;
  event.address = address;
  event.size = bytes;
  event.text = SendText(text, size);
  ring::Record(event);
}

uint64_t FailedCallbacks() { return g_failed_callbacks.load(std::memory_order_relaxed); }

void ForgetFailedCallbacks() { g_failed_callbacks.store(0, std::memory_order_relaxed); }

void ForgetSentTexts() {
  for (std::atomic<uint64_t>& slot : g_sent) slot.store(0, std::memory_order_relaxed);
}

void RecordOpenRanges() {
  TakeNotes([](const Mark& mark) { Send(mark); });
}

}  // namespace gpumemshim::control
