// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What all wrappers share: the outermost hooked call of a thread records, calls inside it pass through; an allocation
// is recorded after it succeeded, a free before it happens, a failed free is taken back.
//
// Thread-safety: any thread. Failure: an event that cannot be recorded is
// counted by the ring; the program's call happens in any case. errno is as the real call left it.
//
//   return RecordAfter(ApiId::kcuMemAlloc_v2, EventKind::kAlloc, Memory::kDevice,
//                      [&] { return real(dptr, bytes); },
//                      [&](Event& e, bool ok) { e.size = bytes; if (ok) { e.address = *dptr; } });

#ifndef GPUMEM_SHIM_HOOKS_RECORD_H_
#define GPUMEM_SHIM_HOOKS_RECORD_H_

#include "shim/base/api.h"
#include "shim/base/calls/real.h"
#include "shim/base/calls/scope.h"
#include "shim/base/clock.h"
#include "shim/base/event.h"
#include "shim/control/session.h"

namespace gpumemshim::hooks {

// What stands behind a request that ran out of memory: events that say how much the device had free at that moment (so
// also what other processes held) and what PyTorch's allocator counted itself.
//
// Thread-safety: any thread, inside a hook, after its event was recorded. Failure: nothing is recorded; a thread
// without a current context, memory of the host and a driver that does not answer are no failures of the program.
//
//   ring::Record(event);
//   if (event.kind == EventKind::kAllocFailed) RecordOomState(event);

// Does not keep errno.
void RecordOomState(const Event& failed);

using calls::ErrnoSaver;
using calls::Scope;

// Adds the stack and leaves the event in the ring. Keeps errno.
void Emit(Event& event, uint64_t started_ns = 0);

// The same for a free of PyTorch's allocator, which is one of two events: with its stack where the settings want it
// (stack::Options). Answers ask where memory was allocated, and a stack is two thirds of what an event costs.
void EmitFree(Event& event);

// True where a failure of this kind is a request for memory that was turned down.
constexpr bool IsRequest(EventKind kind) {
  return kind == EventKind::kAlloc || kind == EventKind::kPhysicalCreate || kind == EventKind::kAddressReserve;
}

inline bool IsForeign(ApiId api) {
  return calls::g_foreign_runtime[static_cast<uint16_t>(api)].load(std::memory_order_relaxed);
}

// `fill(event, succeeded)` adds what the call tells. It may dereference out parameters only where it succeeded, and
// must check them even then. It may turn the event down by setting kUnspecified.
template <typename Call, typename Fill>
auto RecordAfter(ApiId api, EventKind kind, Memory memory, Call call, Fill fill) {
  if (IsForeign(api)) [[unlikely]]
    return call();
  Scope scope;
  if (!scope.outermost() || session::IsOff()) return call();
  const uint64_t started_ns = MonotonicNs();
  const auto result = call();
  const ErrnoSaver saver;
  const bool succeeded = static_cast<int>(result) == 0;
  if (!succeeded && !IsRequest(kind)) return result;
  Event event = MakeEvent(api, succeeded ? kind : EventKind::kAllocFailed, memory);
  event.result = static_cast<int32_t>(result);
  fill(event, succeeded);
  if (event.kind != EventKind::kUnspecified) Emit(event, started_ns);
  return result;
}

// For what is not an allocation: a context, a module. It is recorded inside of other calls too, since cudaMalloc makes
// the context and then allocates. `prepare()` runs before the call, its answer is handed to `fill(event, answer)`.
template <typename Prepare, typename Call, typename Fill>
auto RecordInside(ApiId api, EventKind kind, Prepare prepare, Call call, Fill fill) {
  const Scope scope;
  const uint64_t started_ns = MonotonicNs();
  const auto before = [&] {
    const ErrnoSaver saver;
    return prepare();
  }();
  const auto result = call();
  if (static_cast<int>(result) != 0) return result;
  const ErrnoSaver saver;
  Event event = MakeEvent(api, kind, Memory::kDevice);
  fill(event, before);
  if (event.kind != EventKind::kUnspecified) Emit(event, started_ns);
  return result;
}

template <typename Call, typename Fill>
auto RecordBefore(ApiId api, EventKind kind, Memory memory, Fill fill, Call call) {
  if (IsForeign(api)) [[unlikely]]
    return call();
  Scope scope;
  if (!scope.outermost() || session::IsOff()) return call();
  Event event = MakeEvent(api, kind, memory);
  {
    const ErrnoSaver saver;
    fill(event);
    Emit(event);
  }
  const auto result = call();
  if (static_cast<int>(result) != 0) {
    const ErrnoSaver saver;
    event.kind = EventKind::kFreeFailed;
    event.result = static_cast<int32_t>(result);
    event.time_ns = 0;
    Emit(event);
  }
  return result;
}

}  // namespace gpumemshim::hooks

#endif  // GPUMEM_SHIM_HOOKS_RECORD_H_
