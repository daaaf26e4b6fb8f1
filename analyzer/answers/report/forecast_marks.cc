// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/report/forecast_marks.h"

#include "absl/strings/str_cat.h"
#include "base/format.h"
#include "base/utf8.h"
#include "gpumem/trace.pb.h"

namespace gpumem {
namespace {

constexpr int kLongestForecast = 240;

struct Noted {
  uint64_t count = 0;
  const MarkEntry* first = nullptr;
};

// Those that say more than their name: the snapshot of the first warning bears the name alone.
Noted MarksOf(absl::string_view name, const std::vector<MarkEntry>& marks, const ReportInput& input) {
  Noted noted;
  const std::string begin = absl::StrCat(name, " (");
  for (const MarkEntry& entry : marks) {
    const bool is_in = entry.time_ns >= input.window_start_ns() && entry.time_ns <= input.window_end_ns();
    if (entry.kind != trace::MARK || !is_in || entry.text.compare(0, begin.size(), begin) != 0) continue;
    if (noted.count++ == 0) noted.first = &entry;
  }
  return noted;
}

std::string TextBehind(absl::string_view name, const MarkEntry& entry) {
  return TruncateEnd(EscapeControls(absl::string_view(entry.text).substr(name.size())), kLongestForecast, "...");
}

}  // namespace

std::vector<std::string> ForecastLines(const std::vector<MarkEntry>& marks, const ReportInput& input) {
  std::vector<std::string> lines;
  if (const Noted warned = MarksOf(kForecastWarning, marks, input); warned.count != 0) {
    lines.push_back(absl::StrCat(
        "warned ", warned.count == 1 ? "" : absl::StrCat(FormatCount(warned.count), " times, first "), "at ",
        FormatTime(input.Since(warned.first->time_ns)), TextBehind(kForecastWarning, *warned.first)));
  }
  if (const Noted failed = MarksOf(kFailedCallback, marks, input); failed.count != 0) {
    lines.push_back(absl::StrCat(FormatCountOf(failed.count, "callback", "callbacks"), " failed, first",
                                 TextBehind(kFailedCallback, *failed.first)));
  }
  return lines;
}

}  // namespace gpumem
