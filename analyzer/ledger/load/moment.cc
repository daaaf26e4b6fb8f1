// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/load/moment.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/format.h"
#include "gpumem/trace.pb.h"
#include "trace/event_batch.h"

namespace gpumem {
namespace {

using Marks = std::vector<const MarkEntry*>;

bool IsMark(const MarkEntry& entry) { return entry.kind == trace::MARK && entry.number != kProgramEndMark; }

// Whole texts where there is one, else those to which the program added something.
Marks MarksNamed(absl::string_view text, const Analysis& analysis) {
  Marks whole, begun;
  for (const MarkEntry& entry : analysis.marks.entries()) {
    if (!IsMark(entry)) continue;
    if (entry.text == text) whole.push_back(&entry);
    if (absl::StartsWith(entry.text, absl::StrCat(text, " ("))) begun.push_back(&entry);
  }
  return whole.empty() ? begun : whole;
}

// "epoch done#3" is {"epoch done", 3}, unless a mark is called so.
std::pair<absl::string_view, size_t> SplitNumber(absl::string_view text, const Analysis& analysis) {
  const size_t at = text.rfind('#');
  size_t number = 0;
  const bool is_numbered = at != absl::string_view::npos && absl::SimpleAtoi(text.substr(at + 1), &number);
  if (!is_numbered || number == 0 || !MarksNamed(text, analysis).empty()) return {text, 1};
  return {text.substr(0, at), number};
}

absl::string_view MarkText(const std::string& asked) { return absl::StripPrefix(asked, "mark:"); }

MomentQuery MarkQuery(const std::string& asked, const Analysis& analysis) {
  MomentQuery query;
  query.kind = MomentQuery::Kind::kMark;
  const auto [text, number] = SplitNumber(MarkText(asked), analysis);
  const Marks marks = MarksNamed(text, analysis);
  if (number > marks.size() || (number == 1 && marks.size() == 1)) {
    query.text = std::string(MarkText(asked));
  } else {
    query.text = marks[number - 1]->text;
    query.number = marks[number - 1]->time_ns;
  }
  return query;
}

// Smaller is nearer, 3 = not at all.
int DistanceOf(absl::string_view asked, absl::string_view text) {
  const std::string a = absl::AsciiStrToLower(asked), b = absl::AsciiStrToLower(text);
  if (absl::StartsWith(b, a) || absl::StartsWith(a, b)) return 0;
  if (absl::StrContains(b, a)) return 1;
  const size_t word = std::min(a.find(' '), a.size());
  return word >= 3 && absl::StrContains(b, absl::string_view(a).substr(0, word)) ? 2 : 3;
}

// The names of marks nearest to `asked`, each once.
std::vector<std::string> NearestMarks(absl::string_view asked, const Analysis& analysis) {
  constexpr size_t kMost = 3;
  std::vector<std::pair<int, std::string>> found;
  for (const MarkEntry& entry : analysis.marks.entries()) {
    if (!IsMark(entry) || entry.text.empty()) continue;
    std::pair<int, std::string> each{DistanceOf(asked, entry.text), entry.text};
    if (each.first < 3 && std::find(found.begin(), found.end(), each) == found.end()) found.push_back(std::move(each));
    if (found.size() > 1000) break;
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(kMost, found.size()); ++i) names.push_back(absl::StrCat("'", found[i].second, "'"));
  return names;
}

}  // namespace

MomentQuery ParseMoment(const std::string& asked, const LoadedTrace& loaded) {
  MomentQuery query;
  absl::string_view number = asked;
  if (asked == "end") {
    const DeviceAnalysis* const device = LargestDevice(loaded.analysis);
    query.number = device == nullptr ? UINT64_MAX - 1 : device->leaks.at_end_torch.event_index;
  } else if (asked == "peak") {
    const DeviceAnalysis* const device = LargestDevice(loaded.analysis);
    query.number = device == nullptr ? UINT64_MAX - 1 : PeakOf(*device, DefaultMeasure(*device)).event_index;
  } else if (absl::ConsumePrefix(&number, "step") &&
             absl::SimpleAtoi(absl::StripPrefix(absl::StripPrefix(number, ":"), " "), &query.number)) {
    query.kind = MomentQuery::Kind::kStep;
  } else if (const std::optional<uint64_t> time = ParseTime(asked)) {
    query.kind = MomentQuery::Kind::kTime;
    query.number = loaded.analysis.origin_ns + *time;
  } else {
    query = MarkQuery(asked, loaded.analysis);
  }
  return query;
}

absl::Status NoSuchMoment(const std::string& asked, const LoadedTrace& loaded) {
  const auto [text, number] = SplitNumber(MarkText(asked), loaded.analysis);
  const size_t count = MarksNamed(text, loaded.analysis).size();
  std::string hint;
  if (count > 0 && number > count) {
    hint = absl::StrCat("There are ", count, " marks with this name.");
  } else if (const auto names = NearestMarks(text, loaded.analysis); !names.empty()) {
    hint = absl::StrCat("Did you mean ", absl::StrJoin(names, " or "), "?");
  } else {
    hint = "gpumemshim steps, gpumemshim stages and gpumemshim timeline list steps, stages and marks.";
  }
  return absl::InvalidArgumentError(absl::StrCat("this trace has no ", asked, ". ", hint));
}

std::string OtherMarks(const std::string& asked, const LoadedTrace& loaded) {
  if (ParseMoment(asked, loaded).kind != MomentQuery::Kind::kMark) return "";
  const auto [text, number] = SplitNumber(MarkText(asked), loaded.analysis);
  const size_t count = MarksNamed(text, loaded.analysis).size();
  if (count < 2) return "";
  const size_t other = number == count ? 1 : number + 1;
  return absl::StrCat("mark ", number, " of ", count, " with this name; gpumemshim at '", text, "#", other,
                      "' shows another");
}

}  // namespace gpumem
