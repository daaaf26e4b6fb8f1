// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/stack/capture.h"

#include <atomic>
#include <cerrno>

#include "shim/ring/ring.h"
#include "shim/stack/hash.h"
#include "shim/stack/python_code.h"
#include "shim/stack/python_walk.h"
#include "shim/stack/thread_state.h"

extern "C" {
// The linker's names for our own image.
extern const char __ehdr_start __attribute__((visibility("hidden")));
extern const char _end __attribute__((visibility("hidden")));
}

namespace gpumemshim::stack {
namespace {

std::atomic<bool> g_python{false};
std::atomic<uint64_t> g_truncated_stacks;
std::atomic<uint64_t> g_unread_python_frames;

// Room for our own frames and the unwinder's above the first one that counts.
constexpr uint32_t kOwnFrames = 12;

struct NativePart {
  uint64_t hash;     // of its frames, kHashSeed where there are none
  const Path* path;  // where its frames are; nullptr: they are in pcs
  void** pcs;
  uint32_t count;
  bool truncated;
};

struct PythonPart {
  const Interpreter* interpreter;  // nullptr: no Python frames
  const void* innermost;
};

bool IsOwn(const void* pc) {
  const auto value = reinterpret_cast<uintptr_t>(pc);
  const auto start = reinterpret_cast<uintptr_t>(&__ehdr_start);
  return value - start < reinterpret_cast<uintptr_t>(&_end) - start;
}

// Our frames stand at the top, the unwinder's own may stand above them.
uint32_t CountOwn(void* const* pcs, uint32_t count) {
  uint32_t own = 0;
  for (uint32_t i = 0; i < count && i < kOwnFrames; ++i) {
    if (IsOwn(pcs[i])) own = i + 1;
  }
  return own;
}

PythonPart FindPython() {
  if (!g_python.load(std::memory_order_relaxed)) return {nullptr, nullptr};
  const Interpreter* python = FindInterpreter();
  if (python == nullptr) return {nullptr, nullptr};
  const void* innermost = InnermostPythonFrame(*python);
  return {innermost == nullptr ? nullptr : python, innermost};
}

// Index of the first frame that is the interpreter's loop, `count` where there is none.
uint32_t FindEvaluation(const Interpreter& python, void* const* pcs, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    const auto pc = reinterpret_cast<uintptr_t>(pcs[i]);
    if (python.evaluation.Contains(pc) || python.evaluation_cold.Contains(pc)) return i;
  }
  return count;
}

// What an unwinding found. Frames [own, own + count) are those that count; `walked` with what proves their end.
struct Unwound {
  uint32_t own;
  uint32_t count;
  uint32_t walked;
  bool truncated;
  bool whole;
};

Unwound CutAt(const ThreadState* state, uint32_t end, uint32_t count, bool truncated) {
  const uint32_t own = CountOwn(state->pcs, count);
  const uint32_t walked = end < count ? end + 1 : end;
  return {own, end > own ? end - own : 0, walked, truncated, end == count && !truncated};
}

// A Python position calls into C at the same few depths again and again. So ask the unwinder for as many frames as the
// deepest of them needed, and for all of them only where that does not reach the interpreter.
[[gnu::noinline]] Unwound UnwindDownToPython(ThreadState* state, const Interpreter& python, uint64_t key) {
  uint8_t& hint = state->depth_hint[key % kDepthHints];
  if (hint != 0) {
    const uint32_t count = UnwindNative(state->pcs, hint);
    const uint32_t end = FindEvaluation(python, state->pcs, count);
    if (end < count) return CutAt(state, end, count, false);
  }
  const uint32_t count = UnwindNative(state->pcs, kMaxNativeFrames);
  const uint32_t end = FindEvaluation(python, state->pcs, count);
  if (end < count && end + 1 > hint) hint = static_cast<uint8_t>(end + 1);
  return CutAt(state, end, count, end == count && count == kMaxNativeFrames);
}

[[gnu::noinline]] Unwound UnwindAll(ThreadState* state) {
  const uint32_t count = UnwindNative(state->pcs, kMaxNativeOnly + kOwnFrames);
  const uint32_t own = CountOwn(state->pcs, count);
  const uint32_t kept = count - own < kMaxNativeOnly ? count - own : kMaxNativeOnly;
  return {own, kept, own + kept, count == kMaxNativeOnly + kOwnFrames, own + kept == count};
}

// Remembers a stack that comes again, so that the next time it is told by its words alone.
[[gnu::noinline]] void Remember(ThreadState* state, uintptr_t frame, uint64_t key, const Unwound& found,
                                uint64_t hash) {
  if (!state->paths.IsWorthLearning(key, hash)) return;
  const void* caller = Load<const void*>(reinterpret_cast<const void*>(frame), sizeof(void*));
  uint32_t start = 0;
  while (start < found.own && state->pcs[start] != caller) ++start;
  Path* path = state->paths.Replace(key);
  if (start == found.own || !LearnPath(frame, state->pcs + start, found.walked - start, found.whole, path)) {
    return state->paths.Refuse(key, hash);
  }
  path->hash = hash;
  path->first = static_cast<uint16_t>(found.own - start);
  path->count = static_cast<uint16_t>(found.count);
  path->truncated = found.truncated;
  path->key = key;
}

[[gnu::noinline]] NativePart Unwind(ThreadState* state, const PythonPart& python, uintptr_t frame, uint64_t key) {
  const Unwound found =
      python.interpreter == nullptr ? UnwindAll(state) : UnwindDownToPython(state, *python.interpreter, key);
  NativePart native{kHashSeed, nullptr, state->pcs + found.own, found.count, found.truncated};
  for (uint32_t i = 0; i < native.count; ++i) {
    native.hash = Append(native.hash, reinterpret_cast<uint64_t>(native.pcs[i]));
  }
  if (found.count > 0) Remember(state, frame, key, found, native.hash);
  return native;
}

// What tells apart the paths that come in at one depth: the Python position, and without one the path before, since
// native threads do the same things in the same order.
uint64_t WayIn(const ThreadState* state, const PythonPart& python) {
  if (python.interpreter == nullptr) return state->last_native;
  return InstructionOf(python.interpreter->layout, python.innermost) ^ kHashSeed;
}

NativePart CaptureNative(ThreadState* state, const PythonPart& python, uintptr_t frame) {
  if (CurrentUnwinder() == Unwinder::kNone) return {kHashSeed, nullptr, nullptr, 0, false};
  const uint64_t position = WayIn(state, python);
  const uint64_t key = PathKey(frame, position);
  const Path* path = state->paths.Find(key, frame);
  NativePart native;
  if (path != nullptr) {
    native = {path->hash, path, nullptr, path->count, path->truncated};
  } else {
    const int saved_errno = errno;
    native = Unwind(state, python, frame, key);
    errno = saved_errno;
  }
  state->last_native = native.hash;
  return native;
}

uint64_t HashStack(const NativePart& native, const PythonPart& python) {
  if (python.interpreter == nullptr) return Finish(native.hash);
  return Finish(python.interpreter->hash_frames(python.innermost, native.hash, ring::kMaxFrames - native.count));
}

bool SendCodeOnce(ThreadState* state, const Interpreter& python, const PythonPosition& position) {
  if (state->codes.Contains(position.key)) return true;
  const CodeResult result = SendCode(python, position.code, position.key);
  if (result == CodeResult::kNoRoom) return false;
  if (result == CodeResult::kUnreadable) g_unread_python_frames.fetch_add(1, std::memory_order_relaxed);
  state->codes.Insert(position.key);
  return true;
}

// First sight of a stack on this thread: its code objects, then its frames.
[[gnu::noinline]] bool SendStack(ThreadState* state, uint64_t hash, NativePart native, const PythonPart& python) {
  const int saved_errno = errno;
  if (native.path != nullptr) {
    native.pcs = state->pcs;
    native.count = native.path->CopyFrames(native.pcs);
  }
  ring::RawFrame* frames = state->frames;
  uint32_t count = 0;
  for (uint32_t i = 0; i < native.count; ++i) frames[count++] = {reinterpret_cast<uint64_t>(native.pcs[i]), 0, 0};
  bool complete = true;
  bool truncated = native.truncated;
  if (python.interpreter != nullptr) {
    ForEachPythonFrame(python.interpreter->layout, python.innermost, [&](const PythonPosition& position) {
      if (count == ring::kMaxFrames) {
        truncated = true;
        return false;
      }
      complete = SendCodeOnce(state, *python.interpreter, position);
      frames[count++] = {position.key, position.instruction, ring::kFramePython};
      return complete;
    });
  }
  complete = complete && ring::RecordStack(hash, frames, count);
  errno = saved_errno;
  if (!complete) return false;
  if (truncated) g_truncated_stacks.fetch_add(1, std::memory_order_relaxed);
  return true;
}

}  // namespace

void Enable(const Options& options) {
  g_python.store(options.python, std::memory_order_relaxed);
  LoadUnwinder(options.native);
  if (options.python) FindInterpreter();
  ForgetSent();
}

// Not inlined, and with a frame pointer: its frame is the anchor of the remembered paths.
[[gnu::noinline]] uint64_t Capture() {
  ThreadState* state = CurrentThread();
  if (state == nullptr) return 0;
  const PythonPart python = FindPython();
  const NativePart native = CaptureNative(state, python, reinterpret_cast<uintptr_t>(__builtin_frame_address(0)));
  uint64_t hash = 0;
  if (native.count > 0 || python.interpreter != nullptr) {
    hash = HashStack(native, python);
    if (!state->stacks.Contains(hash) && SendStack(state, hash, native, python)) state->stacks.Insert(hash);
  }
  return hash;
}

void ForgetInChild() {
  EndSearchInChild();
  ForgetSent();
}

Losses GetLosses() {
  return {g_truncated_stacks.load(std::memory_order_relaxed), g_unread_python_frames.load(std::memory_order_relaxed)};
}

}  // namespace gpumemshim::stack
