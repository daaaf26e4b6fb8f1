// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/compare/run_table.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/format.h"
#include "ledger/stacks/names.h"

namespace gpumem {
namespace {

bool IsWhole(const RunFacts& run) {
  return run.ending == RunEnding::kCompleted && !run.is_damaged && run.lost_events == 0;
}

// At the peak, of PyTorch's blocks and all else.
size_t LargestCategory(const RunFacts& run) {
  return static_cast<size_t>(std::max_element(run.categories.begin(), run.categories.end()) - run.categories.begin());
}

std::string EndedText(const RunFacts& run) {
  std::string text = absl::StrReplaceAll(RunEndingName(run.ending), {{"_", " "}});
  if (run.is_damaged) absl::StrAppend(&text, ", damaged");
  if (run.lost_events > 0) absl::StrAppend(&text, ", lost ", FormatCountOf(run.lost_events, "event", "events"));
  return text;
}

using RunColumn = AnswerColumn<RunFacts>;

// A peak; the smallest of all has a star.
RunColumn PeakColumn(const char* key, const char* title, const std::vector<RunFacts>& runs, uint64_t RunFacts::*value) {
  const int found = BestRun(runs, value);
  const RunFacts* const best = found < 0 ? nullptr : &runs[static_cast<size_t>(found)];
  return {key,
          title,
          Unit::kBytes,
          "of `device`, the one with the largest peak",
          [value](const RunFacts& run) { return run.*value; },
          [=](const RunFacts& run) {
            return absl::StrCat(BoundSign(run.bound), FormatBytesAligned(run.*value), &run == best ? "*" : " ");
          }};
}

Datum CategoriesThere(const RunFacts& run) {
  std::vector<Member> members;
  for (size_t i = 0; i < kCategories; ++i) {
    if (run.categories[i] > 0)
      members.push_back({std::string(CategoryName(static_cast<Category>(i))), run.categories[i]});
  }
  return Datum::Object(std::move(members));
}

std::string LargestText(const RunFacts& run) {
  const size_t largest = LargestCategory(run);
  return absl::StrCat(CategoryTitle(static_cast<Category>(largest)), ", ", FormatBytes(run.categories[largest]));
}

std::string GrowthText(const RunFacts& run) {
  if (!run.judged_leaks) return "not judged";
  return FormatBytes(static_cast<uint64_t>(std::llround(std::max(run.growth_per_step, 0.0))));
}

std::vector<RunColumn> RunColumns(const std::vector<RunFacts>& runs) {
  constexpr char kEnd[] = "as in [diff](#diff)";
  return {
      {"device", "", Unit::kNumber, "the GPU with the largest peak", [](const RunFacts& run) { return run.device; }},
      PeakColumn("peak_allocated_bytes", "allocated", runs, &RunFacts::peak_allocated),
      PeakColumn("peak_reserved_bytes", "reserved", runs, &RunFacts::peak_reserved),
      PeakColumn("peak_total_bytes", "all CUDA", runs, &RunFacts::peak_total),
      {"peak_bound", "", Unit::kText, kEnd, [](const RunFacts& run) { return PeakBoundName(run.bound); }},
      {"context_bytes", "", Unit::kBytes, kEnd, [](const RunFacts& run) { return run.context; }},
      {"unused_share", "unused", Unit::kShare, "of the reserved peak, what no tensor uses: 0 to 1",
       [](const RunFacts& run) { return run.unused_at_peak_reserved; }},
      {"growth_per_step", "growth a step", Unit::kBytes,
       "bytes that growing lines keep a step; null = too few steps to judge",
       [](const RunFacts& run) { return Datum::If(run.judged_leaks, run.growth_per_step); }, GrowthText},
      {"steps", "steps", Unit::kCount, kEnd, [](const RunFacts& run) { return run.steps; }},
      {"categories", "", Unit::kObject, "bytes at the peak", CategoriesThere},
      {"", "largest at the peak", Unit::kText, "", nullptr, LargestText},
      {"ended", "ended", Unit::kText, kEnd, [](const RunFacts& run) { return RunEndingName(run.ending); }, EndedText},
      {"damaged", "", Unit::kText, kEnd, [](const RunFacts& run) { return run.is_damaged; }},
      {"lost_events", "", Unit::kCount, kEnd, [](const RunFacts& run) { return run.lost_events; }},
      {"trace", "run", Unit::kText, "its file", [](const RunFacts& run) { return run.name; }},
  };
}

}  // namespace

void SortRuns(const std::string& by, std::vector<RunFacts>* runs) {
  const auto sort = [&](uint64_t RunFacts::*value) {
    std::stable_sort(runs->begin(), runs->end(),
                     [&](const RunFacts& a, const RunFacts& b) { return a.*value < b.*value; });
  };
  if (by == "allocated") sort(&RunFacts::peak_allocated);
  if (by == "reserved") sort(&RunFacts::peak_reserved);
  if (by == "total") sort(&RunFacts::peak_total);
}

int BestRun(const std::vector<RunFacts>& runs, uint64_t RunFacts::*value) {
  int best = -1;
  bool differs = false;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!IsWhole(runs[i])) continue;
    if (best >= 0) differs |= runs[i].*value != runs[static_cast<size_t>(best)].*value;
    if (best < 0 || runs[i].*value < runs[static_cast<size_t>(best)].*value) best = static_cast<int>(i);
  }
  return differs ? best : -1;
}

Document CompareAnswer(const std::vector<RunFacts>& runs) {
  Document answer;
  answer.Field("schema_version", kJsonSchemaVersion, "");
  answer.Field("command", "compare", "");
  answer.Table("runs", "one object a run", RunColumns(runs), runs, {});
  for (const auto value : {&RunFacts::peak_allocated, &RunFacts::peak_reserved, &RunFacts::peak_total}) {
    if (BestRun(runs, value) < 0) continue;
    answer.Line("  * smallest of the runs that completed and lost nothing", Tone::kAside);
    break;
  }
  return answer;
}

}  // namespace gpumem
