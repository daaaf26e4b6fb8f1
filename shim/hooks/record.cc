// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/hooks/record.h"

#include "shim/control/session.h"
#include "shim/hooks/device.h"
#include "shim/ring/ring.h"
#include "shim/stack/capture.h"
#include "shim/writer/writer.h"

namespace gpumemshim::hooks {
namespace {

constexpr int32_t kOutOfMemory = 2;  // of CUresult and of cudaError_t

bool LiesOnDevice(Memory memory) {
  return memory != Memory::kHostPinned && memory != Memory::kPhysicalHost && memory != Memory::kVirtual;
}

// No call of the program, so of no layer.
void Record(EventKind kind, const Event& failed, uint64_t size, uint64_t requested_size) {
  Event event = MakeEvent(ApiId::kNone, kind, Memory::kDevice);
  event.device = failed.device;
  event.handle = kind == EventKind::kOomPool ? failed.handle : 0;
  event.size = size;
  event.requested_size = requested_size;
  ring::Record(event, 0);
}

}  // namespace

void RecordOomState(const Event& failed) {
  if (failed.result != kOutOfMemory || !LiesOnDevice(failed.memory)) return;
  if (failed.layer == Layer::kTorch)
    Record(EventKind::kOomAllocator, failed, failed.torch_allocated, failed.torch_reserved);
  uint64_t used_bytes = 0;
  uint64_t reserved_bytes = 0;
  // Only of a pool that is in use for certain: the question might make one.
  const bool asked_pool = failed.memory == Memory::kStreamOrdered;
  if (asked_pool && MemoryOfPool(failed.handle, failed.device, &used_bytes, &reserved_bytes))
    Record(EventKind::kOomPool, failed, used_bytes, reserved_bytes);
  uint64_t free_bytes = 0;
  uint64_t total_bytes = 0;
  if (MemoryOfDevice(failed.device, &free_bytes, &total_bytes))
    Record(EventKind::kOomDevice, failed, free_bytes, total_bytes);
}

namespace {

// Rare, and neither keeps errno.
[[gnu::cold, gnu::noinline]] bool Start() {
  const ErrnoSaver saver;
  return session::StartAtEvent();
}

// What people look for after a crash must be in the file at once: that there is a trace, and who ran out of memory.
[[gnu::cold, gnu::noinline]] void Flush(const Event& event) {
  const ErrnoSaver saver;
  if (event.kind == EventKind::kAllocFailed) RecordOomState(event);
  writer::Flush();
}

}  // namespace

void EmitFree(Event& event) {
  if (!ring::Active() || stack::FreesHaveStacks()) return Emit(event);
  ring::Record(event);
}

void Emit(Event& event, uint64_t started_ns) {
  if (!ring::Active() && !Start()) return;
  event.stack = stack::Capture();
  ring::Record(event, started_ns);
  if (event.kind == EventKind::kAllocFailed || session::IsFirstEvent()) Flush(event);
}

}  // namespace gpumemshim::hooks
