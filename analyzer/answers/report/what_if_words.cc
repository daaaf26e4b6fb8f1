// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "answers/report/sections.h"
#include "base/format.h"

namespace gpumem {
namespace {

std::string Difference(uint64_t from, uint64_t to) {
  if (from == to) return "as much";
  return to < from ? absl::StrCat(FormatBytes(from - to), " less") : absl::StrCat(FormatBytes(to - from), " more");
}

absl::string_view ProgramChangeName(ProgramChange change) {
  constexpr absl::string_view kNames[] = {"none", "one_stream", "one_pool", "largest_first"};
  return kNames[static_cast<size_t>(change)];
}

Datum RunDatum(const WhatIfRun& run) {
  return Datum::Object(
      {{"settings", run.settings},
       {"change", ProgramChangeName(run.change),
        "`none`; `one_stream`: a stream is taken once, `one_pool`: all CUDA graphs share a pool, "
        "`largest_first`: those that share one are captured in that order"},
       {"peak_reserved_bytes", Datum::If(run.why_not.empty(), run.peak_reserved)},
       {"fit_bytes", Datum::If(run.fit.has_value(), run.fit.value_or(0)),
        "the largest request, in whole pages of 2 MiB, that is served in place of the one that failed; "
        "null in `fragmentation`"}},
      JsonLayout::kOneLine);
}

}  // namespace

Datum WhatIfDatum(const WhatIfAnswer* what_if) {
  constexpr char kReplay[] = "as in [replay](#replay)";
  constexpr char kRuns[] =
      "the recorded settings, replayed; the same with expandable segments, or without where they were on: `settings`, "
      "`peak_reserved_bytes`, `fit_bytes`";
  if (what_if == nullptr) return {};
  const bool is_replayed = what_if->is_replayed();
  std::vector<Member> members = {
      {"replayed", is_replayed,
       "the recorded requests were run through PyTorch's own allocator; false: `fit_expandable_bytes` is an estimate"},
      {"why_not", Datum::If(!is_replayed, what_if->why_not),
       "why they were not: no Python with PyTorch, a minute was not enough; null where they were. The members below "
       "are "
       "there only then"},
      {"device", what_if->device}};
  if (is_replayed) {
    members.push_back({"torch", what_if->torch, kReplay});
    members.push_back({"exact", what_if->is_exact, kReplay});
    members.push_back({"doubts", Datum::List({what_if->doubts.begin(), what_if->doubts.end()}), kReplay});
    members.push_back({"recorded", RunDatum(what_if->recorded), kRuns});
    members.push_back({"other", RunDatum(what_if->other), kRuns});
    std::vector<Datum> changes;
    for (const WhatIfRun& run : what_if->changes) changes.push_back(RunDatum(run));
    members.push_back({"changes", Datum::List(std::move(changes)),
                       "the recorded settings with another program: what it could do about streams and pools"});
    members.push_back({"not_followed", Datum::TextOrNull(what_if->not_followed),
                       "what the program did that a replay cannot follow, so that no number is said; null = nothing"});
  }
  return Datum::Object(std::move(members));
}

void AddWhyEstimated(const WhatIfAnswer& what_if, Document* answer) {
  if (what_if.is_replayed() && what_if.is_exact) return;
  if (!what_if.is_replayed()) {
    answer->Paragraph("  ", absl::StrCat("An estimate, since nothing was replayed: ", what_if.why_not), Tone::kAside);
    return;
  }
  std::string text = "The replay of the recorded settings does not give what was recorded";
  for (const std::string& doubt : what_if.doubts) absl::StrAppend(&text, "; ", doubt);
  answer->Paragraph("  ", absl::StrCat(text, ". gpumemshim replay shows the difference."), Tone::kAside);
}

void AddWhatIf(const WhatIfAnswer& what_if, Document* answer) {
  answer->Gap();
  answer->Line({{Tone::kHeading, "Other settings"}});
  if (!what_if.is_replayed()) {
    answer->Paragraph("  ", absl::StrCat("Not known, since nothing was replayed: ", what_if.why_not), Tone::kAside);
    return;
  }
  if (!what_if.not_followed.empty()) {
    answer->Paragraph("  ", absl::StrCat("Not known, a replay cannot follow it: ", what_if.not_followed), Tone::kAside);
    return;
  }
  if (!what_if.other.why_not.empty()) {
    answer->Paragraph("  ", absl::StrCat("Not known: ", what_if.other.why_not), Tone::kAside);
    return;
  }
  const std::string& settings = what_if.other.settings;
  answer->Paragraph(
      "  ", absl::StrCat(settings.empty() ? "PyTorch's defaults" : settings, " would have reserved ",
                         what_if.is_exact ? "" : "about ", FormatBytes(what_if.other.peak_reserved), " at most, ",
                         Difference(what_if.recorded.peak_reserved, what_if.other.peak_reserved),
                         ", by replay in PyTorch ", what_if.torch, "'s own allocator; gpumemshim replay tries more."));
  AddWhyEstimated(what_if, answer);
}

}  // namespace gpumem
