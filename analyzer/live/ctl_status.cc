// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "live/ctl_status.h"

#include "absl/strings/str_cat.h"
#include "base/format.h"
#include "base/utf8.h"

namespace gpumem {
namespace {

uint64_t LostEventsOf(const ControlAnswer& answer) {
  return answer.Number("dropped_allocs") + answer.Number("dropped_frees") + answer.Number("unwritten_events");
}

uint64_t RecordingForNs(const ControlAnswer& answer) {
  const uint64_t since = answer.Number("since_ns"), now = answer.Number("now_ns");
  return since == 0 || now < since ? 0 : now - since;
}

std::string StateText(const ControlAnswer& answer) {
  std::string text = answer.Text("state");
  if (const uint64_t ns = RecordingForNs(answer); ns != 0) absl::StrAppend(&text, " for ", FormatTime(ns));
  if (answer.Number("spans") > 1) absl::StrAppend(&text, ", ", answer.Number("spans"), " spans so far");
  return text;
}

}  // namespace

void WriteJsonStatus(const ControlAnswer& answer, JsonWriter* json) {
  json->Field("pid", answer.Number("pid"));
  json->Field("program", answer.Text("program"));
  json->Field("writer_version", answer.Text("version"));
  json->Field("state", answer.Text("state"));
  json->Field("spans", answer.Number("spans"));
  json->Field("recording_for_ns", RecordingForNs(answer));
  json->Key("file");
  answer.Text("file").empty() ? json->Null() : json->Value(answer.Text("file"));
  json->Field("file_bytes", answer.Number("file_bytes"));
  json->Field("events", answer.Number("events"));
  json->Field("lost_events", LostEventsOf(answer));
  json->Key("existing");
  answer.Text("existing").empty() ? json->Null() : json->Value(answer.Text("existing"));
  json->Field("existing_blocks", answer.Number("existing_blocks"));
  json->Field("existing_bytes", answer.Number("existing_bytes"));
  json->Field("dropped_definitions", answer.Number("dropped_definitions"));
  json->Field("ring_bytes", answer.Number("ring_bytes"));
  json->Field("ring_used_bytes", answer.Number("ring_used_bytes"));
  json->Field("ring_high_bytes", answer.Number("ring_high_bytes"));
  json->Key("write_error");
  answer.Text("write_error").empty() ? json->Null() : json->Value(answer.Text("write_error"));
}

std::string StatusText(const ControlAnswer& answer) {
  std::string text = absl::StrCat(EscapeControls(answer.Text("program")), "  process ", answer.Number("pid"), ", ",
                                  EscapeControls(StateText(answer)), "\n");
  if (answer.Text("file").empty()) {
    absl::StrAppend(&text, "  file    none so far: nothing was recorded\n");
  } else {
    absl::StrAppend(&text, "  file    ", EscapeControls(answer.Text("file")), ", ",
                    FormatBytes(answer.Number("file_bytes")), ", ",
                    FormatCountOf(answer.Number("events"), "event", "events"), "\n");
  }
  if (const std::string existing = answer.Text("existing"); existing == "known") {
    absl::StrAppend(&text, "  before  ", FormatCountOf(answer.Number("existing_blocks"), "block", "blocks"),
                    " of PyTorch, ", FormatBytes(answer.Number("existing_bytes")), ", existed when recording began\n");
  } else if (existing == "awaited") {
    absl::StrAppend(
        &text, "  before  what existed is not known yet: the main thread is in one long call, or waits for input\n");
  } else if (!existing.empty()) {
    absl::StrAppend(&text, "  before  what existed is not known: ", EscapeControls(existing), "\n");
  }
  absl::StrAppend(&text, "  lost    ", FormatCountOf(LostEventsOf(answer), "event", "events"));
  if (!answer.Text("write_error").empty())
    absl::StrAppend(&text, " (", EscapeControls(answer.Text("write_error")), ")");
  absl::StrAppend(&text, "\n");
  if (answer.Number("ring_bytes") != 0) {
    absl::StrAppend(&text, "  ring    ", FormatBytes(answer.Number("ring_used_bytes")), " of ",
                    FormatBytes(answer.Number("ring_bytes")), " in use, at most ",
                    FormatBytes(answer.Number("ring_high_bytes")), "\n");
  }
  return text;
}

}  // namespace gpumem
