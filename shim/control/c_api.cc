// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The library's side of include/gpumemshim.h: one exported function, which hands out the others. A program finds it by
// dlsym, so that it need not link to us.

#include <cstring>

#include "include/gpumemshim.h"
#include "shim/base/api.h"
#include "shim/base/calls/scope.h"
#include "shim/base/memory_checkers.h"
#include "shim/control/marks.h"
#include "shim/control/recording.h"
#include "shim/control/session.h"
#include "shim/ring/ring.h"
#include "shim/stack/capture.h"

namespace gpumemshim::control {
namespace {

size_t SizeOf(const char* text) { return text == nullptr ? 0 : strnlen(text, ring::kMaxTextBytes); }

int IsRecording() { return ring::Active() ? 1 : 0; }

void AddMark(const char* text) {
  RecordMark({.kind = EventKind::kMark, .text = text == nullptr ? "" : text, .size = SizeOf(text)});
}

void AddSnapshot(const char* name) {
  RecordMark({.kind = EventKind::kMark, .text = name == nullptr ? "" : name, .size = SizeOf(name), .number = 1});
}

void SetName(const void* address, size_t bytes, const char* name) {
  RecordName(reinterpret_cast<uint64_t>(address), bytes, name, SizeOf(name));
}

void PushStage(const char* name) {
  RecordMark({.kind = EventKind::kRangePush, .text = name == nullptr ? "" : name, .size = SizeOf(name)});
}

void PopStage() { RecordMark({.kind = EventKind::kRangePop}); }

void BeginStep(uint64_t number) { RecordMark({.kind = EventKind::kStep, .number = number}); }

void SetTag(const char* name) { RecordMark({.kind = EventKind::kTag, .text = name, .size = SizeOf(name)}); }

void ReadOnHost(const void* address, size_t bytes) {
  if (session::IsOff() || !ring::Active()) return;  // a read begins no recording
  const calls::ErrnoSaver saver;
  Event event = MakeEvent(ApiId::kNone, EventKind::kHostRead, Memory::kDevice);
  event.layer = Layer::kUnspecified;
  event.address = reinterpret_cast<uint64_t>(address);
  event.size = bytes;
  event.stack = stack::Capture();
  ring::Record(event);
}

void Pause() {
  const calls::ErrnoSaver saver;
  StopRecording();
}

void Resume() {
  const calls::ErrnoSaver saver;
  StartRecording();
}

constexpr gpumemshim_api kApi = {
    .version = GPUMEMSHIM_API_VERSION,
    .size = sizeof(gpumemshim_api),
    .recording = &IsRecording,
    .mark = &AddMark,
    .stage_push = &PushStage,
    .stage_pop = &PopStage,
    .step = &BeginStep,
    .tag = &SetTag,
    .pause = &Pause,
    .resume = &Resume,
    .snapshot = &AddSnapshot,
    .name = &SetName,
    .read = &ReadOnHost,
};

}  // namespace
}  // namespace gpumemshim::control

extern "C" __attribute__((visibility("default"))) const gpumemshim_api* gpumemshim_get_api_v1() {
  gpumemshim::BypassMemoryCheckers();
  return &gpumemshim::control::kApi;
}
