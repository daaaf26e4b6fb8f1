// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/stack/capture.h"

#include <atomic>
#include <cerrno>

#include "shim/base/loaded_modules.h"
#include "shim/ring/ring.h"
#include "shim/stack/autograd_nodes.h"
#include "shim/stack/hash.h"
#include "shim/stack/mixed_frames.h"
#include "shim/stack/module_objects.h"
#include "shim/stack/python_code.h"
#include "shim/stack/python_walk.h"
#include "shim/stack/thread_state.h"

extern "C" {
// The linker's names for our own image.
extern const char __ehdr_start __attribute__((visibility("hidden")));
extern const char _end __attribute__((visibility("hidden")));
// Where the engine's evaluation of a node returns to (hooks/autograd_x86_64.S). Weak: tests have stacks alone.
extern const char GpumemNodeReturn __attribute__((visibility("hidden"), weak));
}

namespace gpumemshim::stack {

std::atomic<bool> g_free_stacks;
namespace {

std::atomic<bool> g_python{false};
std::atomic<NativeDepth> g_native{NativeDepth::kCut};
std::atomic<uint64_t> g_truncated_stacks;
std::atomic<uint64_t> g_unread_python_frames;

// Room for our own frames and the unwinder's above the first one that counts.
constexpr uint32_t kOwnFrames = 12;
// Generated code met for the first time has its stack unwound again; a stack may hold several such places.
constexpr int kMaxAttempts = 4;
static_assert(kMaxNative + kOwnFrames <= kMaxUnwind);

struct NativePart {
  uint64_t hash;     // of its frames, kHashSeed where there are none
  const Path* path;  // where its frames are; nullptr: they are in pcs
  void** pcs;
  uint32_t count;
  bool cut;          // there are callers that were not found
  uint32_t unwound;  // addresses that the unwinder met, and may remember: state->pcs[0 .. unwound)
};

constexpr NativePart kNoNative{kHashSeed, nullptr, nullptr, 0, false, 0};

struct PythonPart {
  const Interpreter* interpreter;  // nullptr: no Python frames
  PythonFrames frames;
};

// What ends a stack's native part.
struct NativeEnd {
  const Interpreter* interpreter;  // nullptr: not its loop
  bool node;
};

bool IsOwn(const void* pc) {
  const auto value = reinterpret_cast<uintptr_t>(pc);
  const auto start = reinterpret_cast<uintptr_t>(&__ehdr_start);
  return value - start < reinterpret_cast<uintptr_t>(&_end) - start && pc != &GpumemNodeReturn;
}

// Our frames stand at the top, the unwinder's own may stand above them. Further out may be a hook that is still in its
// real call (a communicator of NCCL is made): what lies between is part of the stack.
uint32_t CountOwn(void* const* pcs, uint32_t count) {
  const uint32_t most = count < kOwnFrames ? count : kOwnFrames;
  uint32_t own = 0;
  while (own < most && !IsOwn(pcs[own])) ++own;
  if (own == most) return 0;
  while (own < most && IsOwn(pcs[own])) ++own;
  return own;
}

PythonPart FindPython(const NodeContext* node) {
  if (!g_python.load(std::memory_order_relaxed)) return {nullptr, {}};
  const Interpreter* python = FindInterpreter();
  if (python == nullptr) return {nullptr, {}};
  const void* innermost = InnermostPythonFrame(*python);
  const void* outside = node == nullptr ? nullptr : node->python;
  return {innermost == outside ? nullptr : python, {innermost, outside}};
}

// Index of the first frame that is an end, `count` where there is none.
uint32_t FindEnd(const NativeEnd& end, void* const* pcs, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    if (end.interpreter != nullptr && IsEvaluation(*end.interpreter, pcs[i])) return i;
    if (end.node && pcs[i] == &GpumemNodeReturn) return i;
  }
  return count;
}

// What an unwinding found. Frames [own, own + count) are those that count; `walked` with what proves their end.
struct Found {
  uint32_t own;
  uint32_t count;
  uint32_t walked;
  uint32_t unwound;
  bool cut;
  bool whole;
  bool forgettable;  // may not be remembered
};

Found CutAt(const ThreadState* state, uint32_t end, const Unwound& unwound) {
  const uint32_t own = CountOwn(state->pcs, unwound.count);
  const bool reached = end < unwound.count;  // the interpreter, or the engine
  const bool cut = !reached && (unwound.cut || unwound.count == kMaxUnwind);
  const uint32_t found = end > own ? end - own : 0;
  const uint32_t count = found < kMaxNative ? found : kMaxNative;
  return {
      own, count, reached ? end + 1 : end, unwound.count, cut || count < found, !reached && !cut, unwound.irregular};
}

// A Python position calls into C at the same few depths again and again. So ask the unwinder for as many frames as the
// deepest of them needed, and for all of them only where that does not reach the interpreter.
[[gnu::noinline]] Found UnwindDown(ThreadState* state, const NativeEnd& wanted, uint64_t key) {
  uint16_t& hint = state->depth_hint[key % kDepthHints];
  if (hint != 0) {
    const Unwound unwound = UnwindNative(state->pcs, hint);
    const uint32_t end = FindEnd(wanted, state->pcs, unwound.count);
    if (end < unwound.count) return CutAt(state, end, unwound);
  }
  const Unwound unwound = UnwindNative(state->pcs, kMaxUnwind);
  const uint32_t end = FindEnd(wanted, state->pcs, unwound.count);
  if (end < unwound.count && end + 1 > hint) hint = static_cast<uint16_t>(end + 1);
  return CutAt(state, end, unwound);
}

[[gnu::noinline]] Found UnwindAll(ThreadState* state) {
  const Unwound unwound = UnwindNative(state->pcs, kMaxNative + kOwnFrames);
  const uint32_t own = CountOwn(state->pcs, unwound.count);
  const uint32_t kept = unwound.count - own < kMaxNative ? unwound.count - own : kMaxNative;
  const bool whole = own + kept == unwound.count && unwound.count < kMaxNative + kOwnFrames && !unwound.cut;
  return {own, kept, own + kept, unwound.count, !whole, whole, unwound.irregular};
}

// Remembers a stack that comes again, so that the next time it is known by its words alone.
[[gnu::noinline]] void Remember(ThreadState* state, uintptr_t frame, uint64_t key, const Found& found, uint64_t hash) {
  if (found.forgettable || !state->paths.IsWorthLearning(key, hash)) return;
  const void* caller = Load<const void*>(reinterpret_cast<const void*>(frame), sizeof(void*));
  uint32_t start = 0;
  while (start < found.own && state->pcs[start] != caller) ++start;
  Lesson lesson;
  if (start == found.own || !LearnPath(frame, state->pcs + start, found.walked - start, found.whole, &lesson)) {
    return state->paths.Refuse(key, hash);
  }
  state->paths.Keep(key, lesson,
                    {hash, static_cast<uint16_t>(found.own - start), static_cast<uint16_t>(found.count), found.cut});
}

// Code that was replaced makes other stacks of the same addresses.
uint64_t Seed() { return kHashSeed + modules::Epoch(); }

bool WantsOnlyInner(const PythonPart& python) {
  return python.interpreter != nullptr && g_native.load(std::memory_order_relaxed) == NativeDepth::kCut;
}

[[gnu::noinline]] NativePart Unwind(ThreadState* state, const PythonPart& python, const NodeContext* node,
                                    uintptr_t frame, uint64_t key) {
  const NativeEnd end{WantsOnlyInner(python) ? python.interpreter : nullptr, node != nullptr};
  const Found found = end.interpreter != nullptr || end.node ? UnwindDown(state, end, key) : UnwindAll(state);
  NativePart native{Seed(), nullptr, state->pcs + found.own, found.count, found.cut, found.unwound};
  for (uint32_t i = 0; i < native.count; ++i) {
    native.hash = Append(native.hash, reinterpret_cast<uint64_t>(native.pcs[i]));
  }
  if (found.count > 0) Remember(state, frame, key, found, native.hash);
  return native;
}

// What tells apart the paths that come in at one depth: the Python position, and without one the path before, since
// native threads do the same things in the same order. An autograd node's class tells more.
uint64_t WayIn(const ThreadState* state, const PythonPart& python, const NodeContext* node) {
  if (python.interpreter == nullptr) return state->last_native + (node == nullptr ? 0 : node->type);
  return InstructionOf(python.interpreter->layout, python.frames.innermost) ^ kHashSeed;
}

[[gnu::cold, gnu::noinline]] bool LookAtModules() {
  const int saved_errno = errno;
  const bool looked = modules::Look();
  errno = saved_errno;
  return looked;
}

NativePart CaptureNative(ThreadState* state, const PythonPart& python, const NodeContext* node, uintptr_t frame) {
  if (CurrentUnwinder() == Unwinder::kNone) return kNoNative;
  if (modules::MayHaveChanged() && !LookAtModules()) return {kHashSeed, nullptr, nullptr, 0, true, 0};
  const uint64_t position = WayIn(state, python, node) + modules::Epoch();
  const uint64_t key = PathKey(frame, position);
  const Path* path = state->paths.Find(key, frame);
  NativePart native;
  if (path != nullptr) {
    native = {path->facts.hash, path, nullptr, path->facts.count, path->facts.cut, 0};
  } else {
    const int saved_errno = errno;
    native = Unwind(state, python, node, frame, key);
    errno = saved_errno;
  }
  state->last_native = native.hash;
  return native;
}

uint64_t HashStack(ThreadState* state, const NativePart& native, const PythonPart& python, const NodeContext* node) {
  uint64_t hash = native.hash;
  if (python.interpreter != nullptr) {
    const uint32_t room = ring::kMaxFrames - 1 - native.count;
    hash = Append(hash, state->positions.Hash(*python.interpreter, python.frames, room) + ObjectEpoch());
  }
  if (node != nullptr) hash = Append(Append(hash, node->forward), node->type);
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

// The flags of the frame of an object's call. 0 in the upper bits: no object, or none that can be numbered.
uint32_t PythonFlags(ThreadState* state, const PythonPosition& position) {
  if (position.object == nullptr) return ring::kFramePython;
  const uint32_t number = ObjectNumber(position.object);
  const uint64_t key = Mix(kHashSeed, number);
  if (number != 0) AskForName(number);
  if (number != 0 && !state->codes.Contains(key) && SendObject(position.object, number)) state->codes.Insert(key);
  return ring::kFramePython | number << ring::kFrameObjectShift;
}

// Frames on their way to the ring, the last place kept for the mark of a cut.
class FrameList {
 public:
  explicit FrameList(ring::RawFrame* frames) : frames_(frames) {}
  bool Add(uint64_t pc, uint32_t instruction, uint32_t flags) {
    if (count_ == ring::kMaxFrames - 1) return false;
    frames_[count_++] = {pc, instruction, flags};
    return true;
  }
  void AddCut() { frames_[count_++] = {0, 0, ring::kFrameCut}; }
  void AddForward(const NodeContext& node) { frames_[count_++] = {node.forward, node.type, ring::kFrameForward}; }
  bool Send(uint64_t hash) const { return ring::RecordStack(hash, frames_, count_); }

 private:
  ring::RawFrame* frames_;
  uint32_t count_ = 0;
};

// Tells the module table what the unwinder saw. False where that is generated code which was not known: the unwinder
// may have guessed, and knows better now.
bool NoteAddresses(const ThreadState* state, const NativePart& native) {
  bool known = true;
  for (uint32_t i = 0; i < native.unwound; ++i) {
    const auto pc = reinterpret_cast<uint64_t>(state->pcs[i]);
    if (modules::NumberOf(pc) == 0 && modules::NoteForeign(pc)) known = false;
  }
  return known;
}

enum class Sent { kYes, kNo, kAgain };

void EndList(FrameList* list, bool ends, const NodeContext* node) {
  if (node == nullptr) {
    if (ends) list->AddCut();
  } else if (ends && !list->Add(0, 0, ring::kFrameCut)) {
    list->AddCut();
  } else {
    list->AddForward(*node);
  }
}

void SendNodeTypeOnce(ThreadState* state, const NodeContext* node) {
  if (node == nullptr || node->type == 0) return;
  const uint64_t key = ring::NodeTextKey(node->type);
  if (!state->codes.Contains(key) && SendNodeType(node->type)) state->codes.Insert(key);
}

// First sight of a stack on this thread: its code objects, then its frames.
[[gnu::noinline]] Sent SendStack(ThreadState* state, uint64_t hash, NativePart native, const PythonPart& python,
                                 const NodeContext* node) {
  const int saved_errno = errno;
  if (native.path != nullptr) {
    native.pcs = state->pcs;
    native.count = state->paths.CopyFrames(*native.path, native.pcs);
  } else if (!NoteAddresses(state, native)) {
    errno = saved_errno;
    return Sent::kAgain;
  }
  FrameList list(state->frames);
  bool complete = true;
  uint32_t outermost = 1;  // module of the last native frame; 0: generated code, whose callers cannot be found
  const bool inner = WantsOnlyInner(python);
  bool gap = native.cut;  // not told yet
  const uint64_t module_call = GetModuleCall().code;
  const bool whole = ForEachMixedFrame(
      python.interpreter, python.frames, native.pcs, native.count,
      [&](const void* pc) {
        outermost = modules::NumberOf(reinterpret_cast<uint64_t>(pc));
        return list.Add(reinterpret_cast<uint64_t>(pc), outermost, 0);
      },
      [&](const PythonPosition& position) {
        if (gap && inner) gap = !list.Add(0, 0, ring::kFrameCut);
        complete = SendCodeOnce(state, *python.interpreter, position);
        return complete && list.Add(position.key, position.instruction, PythonFlags(state, position));
      });
  const bool ends = !whole || gap || (outermost == 0 && !inner);
  if (complete) {
    SendNodeTypeOnce(state, node);
    EndList(&list, ends, node);
  }
  const bool learned = GetModuleCall().code != module_call;  // the hash lacks the objects
  complete = complete && !learned && list.Send(hash);
  errno = saved_errno;
  if (learned) return Sent::kAgain;
  if (!complete) return Sent::kNo;
  if (ends || native.cut) g_truncated_stacks.fetch_add(1, std::memory_order_relaxed);
  return Sent::kYes;
}

// In the caller's frame, `frame`.
template <typename GetNative>
[[gnu::always_inline]] inline uint64_t CaptureWith(uintptr_t frame, GetNative get_native) {
  ThreadState* state = CurrentThread();
  if (state == nullptr) return 0;
  const NodeContext* node = CurrentNode(state, frame);
  const PythonPart python = FindPython(node);
  for (int attempt = 0;; ++attempt) {
    const NativePart native = get_native(state, python, node);
    if (native.count == 0 && python.interpreter == nullptr && node == nullptr) return 0;
    const uint64_t hash = HashStack(state, native, python, node);
    if (state->stacks.Contains(hash)) [[likely]]
      return hash;
    const Sent sent = SendStack(state, hash, native, python, node);
    if (sent == Sent::kAgain && attempt < kMaxAttempts) continue;
    if (sent == Sent::kYes) state->stacks.Insert(hash);
    return hash;
  }
}

}  // namespace

void Enable(const Options& options) {
  AdoptProcess();
  g_python.store(options.python, std::memory_order_relaxed);
  g_native.store(options.native, std::memory_order_relaxed);
  g_free_stacks.store(options.free_stacks, std::memory_order_relaxed);
  EnableNodes(options.autograd);
  LoadUnwinder(options.unwinder);
  modules::Prepare();
  if (options.python) FindInterpreter();
  ForgetSent();
}

// Not inlined, and with a frame pointer: its frame is the anchor of the remembered paths.
[[gnu::noinline]] uint64_t Capture() {
  const auto frame = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  return CaptureWith(frame, [frame](ThreadState* state, const PythonPart& python, const NodeContext* node) {
    return CaptureNative(state, python, node, frame);
  });
}

uint64_t CapturePython() {
  const auto frame = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  return CaptureWith(frame, [](ThreadState*, const PythonPart&, const NodeContext*) { return kNoNative; });
}

void ForgetInChild() {
  modules::ForgetInChild();
  EndSearchInChild();
  AdoptProcess();
  ForgetSent();
}

Losses GetLosses() {
  return {g_truncated_stacks.load(std::memory_order_relaxed), g_unread_python_frames.load(std::memory_order_relaxed)};
}

}  // namespace gpumemshim::stack
