// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "live/ctl_console.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "base/format.h"
#include "base/utf8.h"

namespace gpumem {
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

}  // namespace gpumem
