// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/control/recording.h"

#include <unistd.h>

#include <atomic>

#include "shim/base/calls/scope.h"
#include "shim/control/marks.h"
#include "shim/control/server/server.h"
#include "shim/control/session.h"
#include "shim/control/session_state.h"
#include "shim/control/stderr_lines.h"
#include "shim/python/existing.h"
#include "shim/python/inject.h"
#include "shim/ring/ring.h"

namespace gpumemshim::control {
namespace {

std::atomic<uint64_t> g_failed_torch, g_failed_cuda;

constexpr uint32_t kFlushSliceMs = 100;
constexpr char kOnLine[] = "gpumemshim: recording is on\n", kOffLine[] = "gpumemshim: recording is off\n";

// From `from` to kSwitching. False: somebody else was faster, or it is another state.
bool BeginSwitch(State from) {
  return g_state.compare_exchange_strong(from, State::kSwitching, std::memory_order_acq_rel);
}

// A state that our process's own fork handler has not seen is the parent's.
State OwnState() {
  const State state = g_state.load(std::memory_order_acquire);
  return state != State::kIdle && g_pid.load(std::memory_order_relaxed) != getpid() ? State::kForked : state;
}

}  // namespace

const char* RecordingName(Recording recording) {
  switch (recording) {
    case Recording::kNotSetUp:
      return "not set up";
    case Recording::kDormant:
      return "dormant";
    case Recording::kRecording:
      return "recording";
    case Recording::kPaused:
      return "paused";
    case Recording::kFailed:
      return "failed";
    case Recording::kEnded:
      break;
  }
  return "ended";
}

RecordingStatus GetRecordingStatus() {
  RecordingStatus status;
  status.program = g_facts.program;
  status.pid = g_facts.pid;
  status.since_ns = g_since_ns.load(std::memory_order_relaxed);
  status.spans = g_spans.load(std::memory_order_relaxed);
  switch (OwnState()) {
    case State::kIdle:
    case State::kStarting:
    case State::kForked:
      status.recording = Recording::kNotSetUp;
      break;
    case State::kActive:
      status.recording = Recording::kRecording;
      break;
    case State::kDormant:
      status.recording = Recording::kDormant;
      break;
    case State::kSwitching:
    case State::kPaused:
      status.recording = Recording::kPaused;
      break;
    case State::kFailed:
      status.recording = Recording::kFailed;
      break;
    case State::kEnded:
      status.recording = Recording::kEnded;
      break;
  }
  return status;
}

bool StartRecording() {
  const calls::Scope scope;
  const State state = OwnState();
  if (state == State::kActive) return true;
  if (state == State::kIdle || state == State::kForked) {
    g_wish.store(Wish::kRecord, std::memory_order_relaxed);
    return false;
  }
  if ((state != State::kDormant && state != State::kPaused) || !BeginSwitch(state)) return false;
  const bool started = state == State::kPaused ? ring::Resume() : BeginRecording();
  if (started) {
    // Before any hook records: what its events change is what existed from here on.
    RecordMark({.kind = EventKind::kRecordingStart, .number = kStartWithExisting});
    session::g_off.store(false, std::memory_order_seq_cst);
    BeginSpan();
    python::RequestExisting();
    writer::Flush();
    SayLine(LogLevel::kDebug, kOnLine, sizeof kOnLine - 1);
  }
  g_state.store(started ? State::kActive : State::kFailed, std::memory_order_release);
  return started;
}

bool StopRecording() {
  const State state = OwnState();
  if (state == State::kIdle || state == State::kForked) g_wish.store(Wish::kDormant, std::memory_order_relaxed);
  if (state == State::kPaused || state == State::kDormant) return true;
  if (!BeginSwitch(State::kActive)) return false;
  RecordMark({.kind = EventKind::kRecordingStop});
  writer::Flush();
  ring::Pause();
  session::g_off.store(true, std::memory_order_relaxed);
  g_since_ns.store(0, std::memory_order_relaxed);
  g_state.store(State::kPaused, std::memory_order_release);
  SayLine(LogLevel::kDebug, kOffLine, sizeof kOffLine - 1);
  return true;
}

bool SwitchRecording() { return OwnState() == State::kActive ? StopRecording() : StartRecording(); }

bool FlushRecording(uint32_t timeout_ms) {
  const State state = OwnState();
  if (state != State::kActive && state != State::kPaused) return false;
  for (uint32_t waited_ms = 0; waited_ms < timeout_ms && !server::IsStopping(); waited_ms += kFlushSliceMs) {
    if (writer::FlushAndWait(kFlushSliceMs)) return true;
  }
  return false;
}

uint64_t FailedRequests(Layer layer) {
  return (layer == Layer::kTorch ? g_failed_torch : g_failed_cuda).load(std::memory_order_relaxed);
}

void CountFailedRequest(Layer layer) {
  (layer == Layer::kTorch ? g_failed_torch : g_failed_cuda).fetch_add(1, std::memory_order_relaxed);
}

}  // namespace gpumemshim::control

namespace gpumemshim::session {

constinit std::atomic<bool> g_asked_helper{false};

[[gnu::cold, gnu::noinline]] void AskHelper() {
  const calls::ErrnoSaver saver;
  if (control::g_state.load(std::memory_order_relaxed) == control::State::kEnded)
    return;  // a lock of Python's may be held
  if (!g_asked_helper.exchange(true, std::memory_order_relaxed)) python::RequestLook();
}

}  // namespace gpumemshim::session
