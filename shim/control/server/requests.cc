// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/control/server/requests.h"

#include <time.h>

#include <cstdint>
#include <cstring>

#include "shim/base/clock.h"
#include "shim/control/loader/unseen_calls.h"
#include "shim/control/marks.h"
#include "shim/control/recording.h"
#include "shim/control/server/live_settings.h"
#include "shim/control/session_state.h"
#include "shim/python/existing.h"
#include "shim/python/owners.h"
#include "shim/python/request.h"
#include "shim/ring/ring.h"
#include "shim/settings/text.h"
#include "shim/writer/writer.h"

#ifndef GPUMEMSHIM_VERSION
#define GPUMEMSHIM_VERSION "0"
#endif

namespace gpumemshim::control {
namespace {

constexpr char kProtocol[] = "gpumemshim/1 ";
constexpr uint32_t kFlushTimeoutMs = 5000;
constexpr uint64_t kExistingTimeoutNs = 3'000'000'000;
constexpr uint32_t kPythonTimeoutMs = 8000;  // gpumemshim ctl waits for 10 s

class Answer {
 public:
  Answer(char* out, size_t capacity) : text_(out, capacity) {}

  void Error(const char* why) { text_.Add(kProtocol).Add("error ").Add(why).Add('\n'); }
  void Begin() { text_.Add(kProtocol).Add("ok\n"); }
  void Field(const char* name, const char* value) {
    text_.Add(name).Add(' ');
    for (; *value != '\0'; ++value) AddEscaped(*value);
    text_.Add('\n');
  }
  void Field(const char* name, uint64_t value) { text_.Add(name).Add(' ').Add(value).Add('\n'); }
  // "0.name GPUMEMSHIM_LOG" and what it is set to.
  void Row(uint64_t row, const SettingNow& setting) {
    text_.Add(row).Add('.');
    Field("name", setting.name);
    text_.Add(row).Add('.');
    Field("value", setting.value);
    text_.Add(row).Add('.');
    Field("can_change", uint64_t{setting.can_change});
  }
  // That are fields already.
  void Lines(const char* text, size_t size) { text_.Add(text, size); }
  size_t End() {
    text_.Add("end\n");
    return text_.size();
  }
  size_t size() const { return text_.size(); }

 private:
  void AddEscaped(char c) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && c != '\\' && byte != 0x7f) {
      text_.Add(c);
      return;
    }
    constexpr char kDigits[] = "0123456789abcdef";
    text_.Add("\\x").Add(kDigits[byte >> 4]).Add(kDigits[byte & 15]);
  }

  Text text_;
};

void AddFile(const writer::Progress& progress, Answer* answer) {
  answer->Field("file", progress.path);
  answer->Field("file_bytes", progress.file_bytes);
  answer->Field("events", progress.events);
  answer->Field("unwritten_events", progress.unwritten_events);
  answer->Field("write_error", progress.error);
}

const char* ResultName(python::ExistingResult result) {
  switch (result) {
    case python::ExistingResult::kKnown:
      return "known";
    case python::ExistingResult::kNoTorch:
      return "PyTorch is not there";
    case python::ExistingResult::kNoSnapshot:
      return "this allocator of PyTorch has no snapshot";
    case python::ExistingResult::kNotAsked:
      return "nothing may run in the program's Python";
    case python::ExistingResult::kOtherClasses:
      break;
  }
  return "PyTorch's snapshot is of an unknown form";
}

// What there was when recording began late, as far as PyTorch told.
void AddExisting(Answer* answer) {
  const python::Existing existing = python::GetExisting();
  if (existing.is_asked) answer->Field("existing", "awaited");
  if (existing.is_told) answer->Field("existing", ResultName(existing.result));
  answer->Field("existing_blocks", existing.blocks);
  answer->Field("existing_bytes", existing.allocated_bytes);
}

size_t AnswerStatus(Answer* answer) {
  const RecordingStatus status = GetRecordingStatus();
  const ring::Stats ring = ring::GetStats();
  static writer::Progress progress;  // the control thread's
  writer::GetProgress(&progress);
  answer->Begin();
  answer->Field("version", GPUMEMSHIM_VERSION);
  answer->Field("pid", static_cast<uint64_t>(status.pid));
  answer->Field("program", status.program);
  answer->Field("state", RecordingName(status.recording));
  answer->Field("spans", status.spans);
  answer->Field("since_ns", status.since_ns);
  AddExisting(answer);
  answer->Field("now_ns", MonotonicNs());
  AddFile(progress, answer);
  answer->Field("dropped_allocs", ring.dropped_allocs);
  answer->Field("dropped_frees", ring.dropped_frees);
  answer->Field("dropped_definitions", ring.dropped_definitions);
  static char unseen[1024];
  UnseenText(unseen, sizeof unseen);
  answer->Field("unseen", unseen);
  answer->Field("failed_torch", FailedRequests(Layer::kTorch));
  answer->Field("failed_cuda", FailedRequests(Layer::kDriver));
  answer->Field("ring_bytes", ring.size_bytes);
  answer->Field("ring_used_bytes", ring.used_bytes);
  answer->Field("ring_high_bytes", ring.high_bytes);
  return answer->End();
}

size_t AnswerFlush(Answer* answer) {
  const bool flushed = FlushRecording(kFlushTimeoutMs);
  static writer::Progress progress;
  writer::GetProgress(&progress);
  if (progress.path[0] == '\0') {
    answer->Error("nothing was recorded so far, so there is no file");
    return answer->size();
  }
  if (!flushed) {
    answer->Error("the file did not take everything in time");
    return answer->size();
  }
  answer->Begin();
  AddFile(progress, answer);
  return answer->End();
}

size_t AnswerMark(const Request& request, Answer* answer) {
  if (GetRecordingStatus().recording != Recording::kRecording) {
    answer->Error("recording is off");
    return answer->size();
  }
  const uint64_t is_snapshot = request.command == Command::kSnapshot ? 1 : 0;
  if (!RecordMark(
          {.kind = EventKind::kMark, .text = request.argument, .size = request.argument_size, .number = is_snapshot})) {
    answer->Error("the ring took no more");
    return answer->size();
  }
  answer->Begin();
  return answer->End();
}

size_t AnswerPythonRequest(python::Request request, const char* argument, Answer* answer) {
  static char text[python::kMaxReplyBytes];  // the control thread's
  size_t size = 0;
  if (const char* why = python::Ask(request, argument, kPythonTimeoutMs, text, &size); why != nullptr) {
    answer->Error(why);
    return answer->size();
  }
  answer->Begin();
  answer->Lines(text, size);
  return answer->End();
}

// The main thread may be in a call that lasts.
size_t AnswerOwners(Answer* answer) {
  const uint32_t before = python::GetOwners().taken;
  if (!python::RequestOwners(python::OwnersCause::kAsked)) {
    answer->Error("no owners can be looked for (GPUMEMSHIM_HELPER=0, GPUMEMSHIM_OWNERS_MS=0, or no Python)");
    return answer->size();
  }
  const uint64_t deadline_ns = MonotonicNs() + uint64_t{kPythonTimeoutMs} * 1'000'000;
  while (python::GetOwners().is_asked && MonotonicNs() < deadline_ns) {
    const timespec millisecond{0, 1'000'000};
    nanosleep(&millisecond, nullptr);
  }
  const python::OwnersState owners = python::GetOwners();
  if (owners.taken == before) {
    answer->Error(owners.is_asked ? "the program's main thread did not come to it in time"
                                  : "nothing was seen: PyTorch is not there, or the helper failed");
    return answer->size();
  }
  FlushRecording(kFlushTimeoutMs);
  answer->Begin();
  answer->Field("tensors", owners.blocks);
  answer->Field("took_ms", owners.took_ms);
  return answer->End();
}

size_t AnswerEval(const Request& request, Answer* answer) {
  if (!g_settings.eval) {
    answer->Error("nothing is evaluated unless the program was started with GPUMEMSHIM_EVAL=1");
    return answer->size();
  }
  static char text[python::kMaxArgumentBytes];  // the control thread's
  const size_t size = request.argument_size < sizeof text ? request.argument_size : sizeof text - 1;
  std::memcpy(text, request.argument, size);
  text[size] = '\0';
  return AnswerPythonRequest(python::Request::kEval, text, answer);
}

// What the program was started with, and how what can be changed is now.
size_t AnswerSettings(Answer* answer) {
  static LiveValues values;  // the control thread's
  GetLiveSettings(&values);
  answer->Begin();
  uint64_t count = 0;
  for (const SettingNow& live : values.settings) answer->Row(count++, live);
  for (uint32_t i = 0; i < g_facts.settings_count; ++i) {
    const writer::KeyValue& setting = g_facts.settings[i];
    bool is_live = false;
    for (const SettingNow& live : values.settings) is_live = is_live || std::strcmp(live.name, setting.key) == 0;
    if (!is_live) answer->Row(count++, {setting.key, setting.value, false});
  }
  answer->Field("settings", count);
  return answer->End();
}

size_t AnswerSet(const Request& request, Answer* answer) {
  if (const char* why = SetLiveSetting(request.argument, request.argument_size); why != nullptr) {
    answer->Error(why);
    return answer->size();
  }
  return AnswerSettings(answer);
}

size_t AnswerSwitch(bool done, const char* error, Answer* answer) {
  if (!done) {
    answer->Error(error);
    return answer->size();
  }
  return AnswerStatus(answer);
}

// The main thread may be in a call that lasts: what existed is known when it comes.
size_t AnswerStart(Answer* answer) {
  const bool started = StartRecording();
  const uint64_t deadline_ns = MonotonicNs() + kExistingTimeoutNs;
  while (started && python::GetExisting().is_asked && MonotonicNs() < deadline_ns) {
    const timespec millisecond{0, 1'000'000};
    nanosleep(&millisecond, nullptr);
  }
  return AnswerSwitch(started, "recording could not be started", answer);
}

}  // namespace

size_t AnswerRequest(const Request& request, char* out, size_t capacity) {
  Answer answer(out, capacity);
  switch (request.command) {
    case Command::kStatus:
      return AnswerStatus(&answer);
    case Command::kStart:
      return AnswerStart(&answer);
    case Command::kStop:
      return AnswerSwitch(StopRecording(), "recording could not be stopped", &answer);
    case Command::kFlush:
    case Command::kDump:
      return AnswerFlush(&answer);
    case Command::kMark:
    case Command::kSnapshot:
      return AnswerMark(request, &answer);
    case Command::kTensors:
      return AnswerPythonRequest(python::Request::kTensors, "", &answer);
    case Command::kGradients:
      return AnswerPythonRequest(python::Request::kGradients, "", &answer);
    case Command::kGc:
      return AnswerPythonRequest(python::Request::kGc, "", &answer);
    case Command::kBacktrace:
      return AnswerPythonRequest(python::Request::kBacktrace, "", &answer);
    case Command::kOwners:
      return AnswerOwners(&answer);
    case Command::kEval:
      return AnswerEval(request, &answer);
    case Command::kSettings:
      return AnswerSettings(&answer);
    case Command::kSet:
      return AnswerSet(request, &answer);
    case Command::kNone:
      break;
  }
  answer.Error(request.error == nullptr ? "no request" : request.error);
  return answer.size();
}

}  // namespace gpumemshim::control
