// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/hooks/record.h"

#include "shim/control/session.h"
#include "shim/hooks/oom_state.h"
#include "shim/ring/ring.h"
#include "shim/stack/capture.h"
#include "shim/writer/writer.h"

namespace gpumemshim::hooks {

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
