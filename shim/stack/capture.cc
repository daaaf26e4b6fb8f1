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
constexpr uint32_t kOwnFrames = 6;

struct NativePart {
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

// A Python position calls into C at the same few depths again and again. So ask the unwinder for as many frames as the
// deepest of them needed, and for all of them only where that does not reach the interpreter.
NativePart CaptureDownToPython(ThreadState* state, const Interpreter& python, uint64_t position) {
  uint8_t& hint = state->depth_hint[position % kDepthHints];
  if (hint != 0) {
    const uint32_t count = UnwindNative(state->pcs, hint);
    const uint32_t end = FindEvaluation(python, state->pcs, count);
    const uint32_t own = CountOwn(state->pcs, count);
    if (end < count) return {state->pcs + own, end > own ? end - own : 0, false};
  }
  const uint32_t count = UnwindNative(state->pcs, kMaxNativeFrames);
  const uint32_t end = FindEvaluation(python, state->pcs, count);
  const uint32_t own = CountOwn(state->pcs, count);
  if (end < count && end + 1 > hint) hint = static_cast<uint8_t>(end + 1);
  return {state->pcs + own, end > own ? end - own : 0, end == count && count == kMaxNativeFrames};
}

NativePart CaptureAll(ThreadState* state) {
  const uint32_t count = UnwindNative(state->pcs, kMaxNativeOnly + kOwnFrames);
  const uint32_t own = CountOwn(state->pcs, count);
  const uint32_t kept = count - own < kMaxNativeOnly ? count - own : kMaxNativeOnly;
  return {state->pcs + own, kept, count == kMaxNativeOnly + kOwnFrames};
}

uint64_t PositionKey(const PythonPart& python) {
  uint64_t key = 0;
  ForEachPythonFrame(python.interpreter->layout, python.innermost, [&](const PythonPosition& position) {
    key = Mix(position.key, position.instruction);
    return false;
  });
  return key;
}

uint64_t HashStack(const NativePart& native, const PythonPart& python) {
  uint64_t hash = kHashSeed;
  for (uint32_t i = 0; i < native.count; ++i) hash = Append(hash, reinterpret_cast<uint64_t>(native.pcs[i]));
  if (python.interpreter != nullptr) {
    uint32_t room = ring::kMaxFrames - native.count;
    ForEachPythonFrame(python.interpreter->layout, python.innermost, [&](const PythonPosition& position) {
      hash = Append(hash, position.key ^ Rotate(position.instruction, 48));
      return --room > 0;
    });
  }
  return Finish(hash);
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
bool SendStack(ThreadState* state, uint64_t hash, const NativePart& native, const PythonPart& python) {
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
  if (!complete || !ring::RecordStack(hash, frames, count)) return false;
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

uint64_t Capture() {
  ThreadState* state = CurrentThread();
  if (state == nullptr) return 0;
  const int saved_errno = errno;
  const PythonPart python = FindPython();
  const NativePart native = python.interpreter == nullptr
                                ? CaptureAll(state)
                                : CaptureDownToPython(state, *python.interpreter, PositionKey(python));
  uint64_t hash = 0;
  if (native.count > 0 || python.interpreter != nullptr) {
    hash = HashStack(native, python);
    if (!state->stacks.Contains(hash) && SendStack(state, hash, native, python)) state->stacks.Insert(hash);
  }
  errno = saved_errno;
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
