// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "answers/report/sections.h"
#include "base/format.h"
#include "base/utf8.h"
#include "gpumem/trace.pb.h"

namespace gpumem {
namespace {

constexpr size_t kFew = 6, kMany = 40;
constexpr int kLongestText = 60;

// What a timeline shows: instants that somebody named, and switches of the recording.
bool IsShown(const MarkEntry& entry) {
  return entry.kind == trace::MARK || entry.kind == trace::RECORDING_START || entry.kind == trace::RECORDING_STOP;
}

std::string EntryText(const MarkEntry& entry) {
  if (entry.kind == trace::RECORDING_START) return "recording on";
  if (entry.kind == trace::RECORDING_STOP) return "recording off";
  return TruncateEnd(EscapeControls(entry.text), kLongestText, "...");
}

bool IsInWindow(const MarkEntry& entry, const ReportInput& input) {
  return entry.time_ns >= input.window_start_ns() && entry.time_ns <= input.window_end_ns();
}

// "steps 1 to 8, " from the steps in the window.
std::string StepsText(const std::vector<const MarkEntry*>& steps) {
  if (steps.empty()) return "";
  if (steps.size() == 1) return absl::StrCat("step ", steps[0]->number);
  return absl::StrCat("steps ", steps.front()->number, " to ", steps.back()->number);
}

}  // namespace

std::string PlaceText(const MarkPlace& place) {
  std::string text;
  const auto add = [&text](absl::string_view words) { absl::StrAppend(&text, text.empty() ? "" : ", ", words); };
  if (place.step != 0) add(absl::StrCat("step ", place.step));
  if (!place.stage.empty()) add(absl::StrCat("stage ", EscapeControls(place.stage)));
  if (!place.tag.empty()) add(absl::StrCat("tag ", EscapeControls(place.tag)));
  if (!place.mark.empty()) add(absl::StrCat("after mark \"", EscapeControls(place.mark), "\""));
  return text;
}

Datum PlaceDatum(uint64_t time_ns, const ReportInput& input) {
  const MarkPlace place = input.analysis->marks.At(time_ns);
  return Datum::Object({{"step", Datum::If(place.step != 0, place.step), "number of the step, else null"},
                        {"stage", Datum::TextOrNull(place.stage),
                         "names of the open stages, outermost first, joined by ` > `, else null"},
                        {"tag", Datum::TextOrNull(place.tag), "the thread's tag, else null"},
                        {"mark", Datum::TextOrNull(place.mark), "the last mark before, else null"}},
                       JsonLayout::kOneLine);
}

void AddMarks(const ReportInput& input, Detail detail, Document* answer) {
  std::vector<const MarkEntry*> shown, steps;
  for (const MarkEntry& entry : input.analysis->marks.entries()) {
    if (!IsInWindow(entry, input)) continue;
    if (IsShown(entry)) shown.push_back(&entry);
    if (entry.kind == trace::STEP && entry.number != 0) steps.push_back(&entry);
  }
  if (shown.empty() && steps.empty()) return;
  answer->Gap();
  answer->Line({{Tone::kHeading, "Marks"}, {Tone::kPlain, steps.empty() ? "" : absl::StrCat("  ", StepsText(steps))}});
  const size_t most = detail == Detail::kFull ? kMany : kFew;
  for (size_t i = 0; i < std::min(shown.size(), most); ++i) {
    answer->Line(
        absl::StrCat("  ", PadLeft(FormatTime(input.Since(shown[i]->time_ns)), 10), "  ", EntryText(*shown[i])));
  }
  if (shown.size() > most)
    answer->Line(absl::StrCat("  ", FormatCount(shown.size() - most), " more: gpumemshim timeline --json"));
}

void AddMarkFields(const ReportInput& input, Document* answer) {
  std::vector<const MarkEntry*> marks;
  for (const MarkEntry& entry : input.analysis->marks.entries()) {
    if (IsInWindow(entry, input)) marks.push_back(&entry);
  }
  using Entry = const MarkEntry*;
  answer->Table<Entry>(
      "marks", "objects in order: `time_ns` and the next four",
      {{"time_ns", "", [&input](const Entry& entry) { return input.Since(entry->time_ns); }},
       {"kind",
        "`mark`, `range_push`, `range_pop`, `step`, `tag`, `range_start`, `range_end`, `recording_start`, "
        "`recording_stop`",
        [](const Entry& entry) {
          return absl::AsciiStrToLower(trace::EventKind_Name(static_cast<trace::EventKind>(entry->kind)));
        }},
       {"text", "what the mark says, the stage's or the tag's name", [](const Entry& entry) { return entry->text; }},
       {"number", "of the step, or of the range that starts or ends; of a mark: 1 = a snapshot",
        [](const Entry& entry) { return entry->number; }},
       {"tid", "the kernel's id of the thread", [](const Entry& entry) { return entry->tid; }}},
      std::move(marks), {.layout = JsonLayout::kOneLine});
  answer->Field("marks_left_out", input.analysis->marks.entries_dropped(),
                "how many more there are: the list ends at 10,000");
}

}  // namespace gpumem
