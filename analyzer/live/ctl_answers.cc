// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "live/ctl_answers.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
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

bool IsOfSettings(absl::string_view asked) { return asked == "settings" || asked == "set"; }

namespace {

constexpr uint64_t kMostSettings = 1000;  // that a process is believed to have

template <typename Visit>
void ForEachSetting(const ControlAnswer& answer, Visit visit) {
  const uint64_t count = std::min(answer.Number("settings"), kMostSettings);
  for (uint64_t i = 0; i < count; ++i) {
    const auto text = [&](absl::string_view field) { return answer.Text(absl::StrCat(i, ".", field)); };
    visit(text("name"), text("value"), text("can_change") == "1");
  }
}

}  // namespace

std::string SettingsText(const ControlAnswer& answer) {
  std::string can_change, is_fixed;
  ForEachSetting(answer, [&](const std::string& name, const std::string& value, bool changes) {
    absl::StrAppend(changes ? &can_change : &is_fixed, "  ", EscapeControls(name), "=", EscapeControls(value), "\n");
  });
  return absl::StrCat("can be changed (set NAME=VALUE)\n", can_change,
                      is_fixed.empty() ? "" : "read once, at the program's start\n", is_fixed);
}

void WriteJsonSettings(const ControlAnswer& answer, JsonWriter* json) {
  json->Key("settings");
  json->BeginArray();
  ForEachSetting(answer, [&](const std::string& name, const std::string& value, bool changes) {
    json->BeginObject(JsonLayout::kOneLine);
    json->Field("name", name);
    json->Field("value", value);
    json->Field("can_change", changes);
    json->EndObject();
  });
  json->EndArray();
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

namespace {

constexpr size_t kMaxPrinted = 10'000;
constexpr absl::string_view kCounters[] = {"allocated_before", "allocated_after", "reserved_before", "reserved_after"};

std::string FieldOf(const ControlAnswer& answer, size_t row, absl::string_view field) {
  return answer.Text(absl::StrCat(row, ".", field));
}

bool HasRow(const ControlAnswer& answer, size_t row) {
  return row < kMaxPrinted && !FieldOf(answer, row, "name").empty();
}

std::string FromTo(const ControlAnswer& answer, size_t row, absl::string_view what) {
  const auto bytes = [&](absl::string_view when) {
    return FormatBytes(answer.Number(absl::StrCat(row, ".", what, "_", when)));
  };
  return absl::StrCat(what, " ", bytes("before"), " -> ", bytes("after"));
}

std::string GcText(const ControlAnswer& answer) {
  std::string text = absl::StrCat("collected  ", FormatCountOf(answer.Number("collected"), "object", "objects"),
                                  " of Python that only referred to each other\n");
  if (const std::string why = answer.Text("cache_kept"); !why.empty())
    absl::StrAppend(&text, "the cache stays: ", EscapeControls(why), "\n");
  for (size_t row = 0; HasRow(answer, row); ++row) {
    absl::StrAppend(&text, PadRight(EscapeControls(FieldOf(answer, row, "name")), 9), "  ",
                    FromTo(answer, row, "allocated"), ", ", FromTo(answer, row, "reserved"), "\n");
  }
  return text;
}

std::string BacktraceText(const ControlAnswer& answer) {
  std::string text, thread;
  for (size_t row = 0; HasRow(answer, row); ++row) {
    if (const std::string name = FieldOf(answer, row, "name"); name != thread || row == 0) {
      absl::StrAppend(&text, EscapeControls(name), "\n");
      thread = name;
    }
    absl::StrAppend(&text, "  ", EscapeControls(FieldOf(answer, row, "frame")), "\n");
  }
  return text;
}

std::string ValueText(const ControlAnswer& answer) {
  std::string text;
  for (size_t row = 0; HasRow(answer, row); ++row)
    absl::StrAppend(&text, EscapeControls(FieldOf(answer, row, "text")), "\n");
  return text;
}

}  // namespace

bool IsConsole(absl::string_view asked) { return asked == "gc" || asked == "backtrace" || asked == "eval"; }

bool WasEvaluated(const ControlAnswer& answer) { return answer.Text("kind") != "error"; }

std::string ConsoleText(absl::string_view asked, const ControlAnswer& answer) {
  if (asked == "eval") return ValueText(answer);
  return asked == "gc" ? GcText(answer) : BacktraceText(answer);
}

void WriteConsole(absl::string_view asked, const ControlAnswer& answer, JsonWriter* json) {
  if (asked == "eval") {
    json->Field("evaluated", WasEvaluated(answer));
    json->Field("text", ValueText(answer));
    return;
  }
  if (asked == "gc") {
    json->Field("collected", answer.Number("collected"));
    json->Field("cache_kept", answer.Text("cache_kept"));
  }
  json->Key(asked == "gc" ? "devices" : "frames");
  json->BeginArray();
  for (size_t row = 0; HasRow(answer, row); ++row) {
    json->BeginObject(JsonLayout::kOneLine);
    if (asked == "gc") {
      json->Field("name", FieldOf(answer, row, "name"));
      for (const absl::string_view key : kCounters) json->Field(key, answer.Number(absl::StrCat(row, ".", key)));
    } else {
      json->Field("thread", FieldOf(answer, row, "name"));
      json->Field("frame", FieldOf(answer, row, "frame"));
    }
    json->EndObject();
  }
  json->EndArray();
}

namespace {

constexpr size_t kMaxRows = 10'000;

std::string LiveFieldOf(const ControlAnswer& answer, size_t row, absl::string_view field) {
  return answer.Text(absl::StrCat(row, ".", field));
}

// How many came.
size_t Rows(const ControlAnswer& answer) {
  size_t rows = 0;
  while (rows < kMaxRows && (!LiveFieldOf(answer, rows, "bytes").empty() || !LiveFieldOf(answer, rows, "name").empty()))
    ++rows;
  return rows;
}

void WriteNumber(absl::string_view key, const std::string& text, JsonWriter* json) {
  double number = 0;
  json->Key(key);
  absl::SimpleAtod(text, &number) && std::isfinite(number) ? json->Value(number) : json->Null();
}

void WriteTensor(const ControlAnswer& answer, size_t row, JsonWriter* json) {
  const auto number = [&](absl::string_view key) { return answer.Number(absl::StrCat(row, ".", key)); };
  json->Field("bytes", number("bytes"));
  json->Field("dtype", LiveFieldOf(answer, row, "dtype"));
  json->Field("shape", LiveFieldOf(answer, row, "shape"));
  json->Field("device", LiveFieldOf(answer, row, "device"));
  json->Field("address", absl::StrCat("0x", absl::Hex(number("address"))));
  json->Field("shares", number("shares"));
  json->Field("requires_grad", LiveFieldOf(answer, row, "requires_grad") == "True");
  json->Field("holders", LiveFieldOf(answer, row, "holders"));
  json->Field("chain", LiveFieldOf(answer, row, "chain"));
}

void WriteGradient(const ControlAnswer& answer, size_t row, JsonWriter* json) {
  json->Field("name", LiveFieldOf(answer, row, "name"));
  json->Field("elements", answer.Number(absl::StrCat(row, ".elements")));
  for (const absl::string_view key : {"nan", "inf", "norm", "min", "max", "mean"})
    WriteNumber(key, LiveFieldOf(answer, row, key), json);
}

// Tensors in one container, or under one name in many objects: "the global train.cache[310]" is train.cache's.
struct TensorGroup {
  std::string holder;
  std::vector<size_t> rows;  // largest first
  uint64_t bytes = 0;
};

std::string ContainerOf(absl::string_view holders) {
  const absl::string_view first = holders.substr(0, holders.find("; "));
  const size_t bracket = absl::EndsWith(first, "]") ? first.rfind('[') : absl::string_view::npos;
  return absl::StrCat(first.substr(0, bracket), bracket == absl::string_view::npos ? "" : "[...]");
}

std::vector<TensorGroup> GroupTensors(const ControlAnswer& answer, size_t rows) {
  std::vector<TensorGroup> groups;
  std::map<std::string, size_t> places;
  for (size_t row = 0; row < rows; ++row) {
    const std::string holder = ContainerOf(LiveFieldOf(answer, row, "holders"));
    const auto [place, is_new] = places.try_emplace(holder, groups.size());
    if (is_new || holder.empty()) place->second = groups.size();
    if (place->second == groups.size()) groups.push_back({holder, {}, 0});
    groups[place->second].rows.push_back(row);
    groups[place->second].bytes += answer.Number(absl::StrCat(row, ".bytes"));
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const TensorGroup& a, const TensorGroup& b) { return a.bytes > b.bytes; });
  return groups;
}

// How the program reaches it, where that says more than who holds it.
std::string ChainOf(const ControlAnswer& answer, size_t row) {
  const std::string chain = LiveFieldOf(answer, row, "chain");
  const std::string holders = LiveFieldOf(answer, row, "holders");
  const bool says_more = !chain.empty() && chain != holders.substr(0, holders.find("; "));
  return says_more ? absl::StrCat("\n              from ", EscapeControls(chain)) : "";
}

std::string TensorLine(const ControlAnswer& answer, const TensorGroup& group) {
  const size_t row = group.rows[0];
  const std::string shape = absl::StrCat(LiveFieldOf(answer, row, "dtype"), " ", LiveFieldOf(answer, row, "shape"));
  const std::string bytes = absl::StrCat(PadLeft(FormatBytes(group.bytes), 10), "  ");
  if (group.rows.size() > 1) {
    return absl::StrCat(bytes, FormatCount(group.rows.size()), " tensors, held by ", EscapeControls(group.holder),
                        "; largest ", EscapeControls(shape), ChainOf(answer, row), "\n");
  }
  const std::string holders = LiveFieldOf(answer, row, "holders");
  return absl::StrCat(bytes, EscapeControls(shape), " on ", EscapeControls(LiveFieldOf(answer, row, "device")),
                      ", held by ", holders.empty() ? "a local variable, or C++ code" : EscapeControls(holders),
                      ChainOf(answer, row), "\n");
}

std::string GradientLine(const ControlAnswer& answer, size_t row) {
  std::string line = absl::StrCat("  ", EscapeControls(LiveFieldOf(answer, row, "name")));
  if (LiveFieldOf(answer, row, "norm").empty()) return absl::StrCat(line, "  no values\n");
  for (const absl::string_view key : {"nan", "inf"}) {
    const uint64_t count = answer.Number(absl::StrCat(row, ".", key));
    if (count != 0) absl::StrAppend(&line, "  ", FormatCount(count), key == "nan" ? " NaN" : " Inf");
  }
  for (const absl::string_view key : {"norm", "min", "max"}) {
    double number = NAN;
    (void)absl::SimpleAtod(LiveFieldOf(answer, row, key), &number);
    absl::StrAppend(&line, "  ", key, " ", absl::SixDigits(number));
  }
  return absl::StrCat(line, "\n");
}

}  // namespace

bool IsLive(absl::string_view asked) { return asked == "tensors" || asked == "gradients"; }

std::string LiveText(absl::string_view asked, const ControlAnswer& answer) {
  const size_t rows = Rows(answer);
  const uint64_t all = answer.Number("rows");
  const bool of_tensors = asked == "tensors";
  std::string text =
      of_tensors ? absl::StrCat(FormatCountOf(all, "storage", "storages"), " of live tensors, ",
                                FormatBytes(answer.Number("device_bytes")), "\n")
                 : absl::StrCat(FormatCountOf(all, "gradient", "gradients"), ": ", FormatCount(answer.Number("nan")),
                                " NaN, ", FormatCount(answer.Number("inf")), " Inf\n");
  if (of_tensors) {
    for (const TensorGroup& group : GroupTensors(answer, rows)) text += TensorLine(answer, group);
  } else {
    if (const uint64_t none = answer.Number("without_values"); none != 0)
      absl::StrAppend(&text, "not judged: ", FormatCount(none),
                      " without values, since simulated CUDA computes none\n");
    for (size_t row = 0; row < rows; ++row) text += GradientLine(answer, row);
  }
  if (rows < all) absl::StrAppend(&text, "  and ", FormatCount(all - rows), " smaller ones\n");
  return text;
}

void WriteLive(const ControlAnswer& answer, JsonWriter* json) {
  const size_t rows = Rows(answer);
  const uint64_t all = answer.Number("rows");
  const bool of_tensors = !answer.Text("device_bytes").empty();
  if (of_tensors) {
    json->Field("bytes", answer.Number("device_bytes"));
  } else {
    json->Field("nan", answer.Number("nan"));
    json->Field("inf", answer.Number("inf"));
    json->Field("without_values", answer.Number("without_values"));
  }
  json->Key(of_tensors ? "tensors" : "gradients");
  json->BeginArray();
  for (size_t row = 0; row < rows; ++row) {
    json->BeginObject(JsonLayout::kOneLine);
    of_tensors ? WriteTensor(answer, row, json) : WriteGradient(answer, row, json);
    json->EndObject();
  }
  json->EndArray();
  json->Field("left_out", all > rows ? all - rows : 0);
}

}  // namespace gpumem
