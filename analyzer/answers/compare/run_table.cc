// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/compare/run_table.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/format.h"
#include "base/json_writer.h"
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

void AddRunTable(const std::vector<RunFacts>& runs, Page* page) {
  const int best[] = {BestRun(runs, &RunFacts::peak_allocated), BestRun(runs, &RunFacts::peak_reserved),
                      BestRun(runs, &RunFacts::peak_total)};
  std::vector<Page::Row> rows{
      {"allocated", "reserved", "all CUDA", "unused", "growth a step", "steps", "largest at the peak", "ended", "run"}};
  for (size_t i = 0; i < runs.size(); ++i) {
    const RunFacts& run = runs[i];
    const auto cell = [&](uint64_t bytes, int best_of) {
      return absl::StrCat(BoundSign(run.bound), FormatBytesAligned(bytes), best_of == static_cast<int>(i) ? "*" : " ");
    };
    const size_t largest = LargestCategory(run);
    rows.push_back(
        {cell(run.peak_allocated, best[0]), cell(run.peak_reserved, best[1]), cell(run.peak_total, best[2]),
         FormatPercent(run.unused_at_peak_reserved),
         run.judged_leaks ? FormatBytes(static_cast<uint64_t>(std::llround(std::max(run.growth_per_step, 0.0))))
                          : "not judged",
         FormatCount(run.steps),
         absl::StrCat(CategoryTitle(static_cast<Category>(largest)), ", ", FormatBytes(run.categories[largest])),
         EndedText(run), run.name});
  }
  page->Table({Align::kRight, Align::kRight, Align::kRight, Align::kRight, Align::kRight, Align::kRight, Align::kLeft,
               Align::kLeft, Align::kLeft},
              rows);
  if (best[0] >= 0 || best[1] >= 0 || best[2] >= 0)
    page->Line("  * smallest of the runs that completed and lost nothing", Tone::kAside);
}

std::string RunTableJson(const std::vector<RunFacts>& runs) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject();
  json.Field("schema_version", kJsonSchemaVersion);
  json.Field("command", "compare");
  json.Key("runs");
  json.BeginArray();
  for (const RunFacts& run : runs) {
    json.BeginObject();
    json.Field("trace", run.name);
    json.Field("device", run.device);
    json.Field("peak_allocated_bytes", run.peak_allocated);
    json.Field("peak_reserved_bytes", run.peak_reserved);
    json.Field("peak_total_bytes", run.peak_total);
    json.Field("peak_bound", PeakBoundName(run.bound));
    json.Field("context_bytes", run.context);
    json.Field("unused_share", run.unused_at_peak_reserved);
    json.Key("growth_per_step");
    run.judged_leaks ? json.Value(run.growth_per_step) : json.Null();
    json.Field("steps", run.steps);
    json.Key("categories");
    json.BeginObject();
    for (size_t i = 0; i < kCategories; ++i) {
      if (run.categories[i] > 0) json.Field(CategoryName(static_cast<Category>(i)), run.categories[i]);
    }
    json.EndObject();
    json.Field("ended", RunEndingName(run.ending));
    json.Field("damaged", run.is_damaged);
    json.Field("lost_events", run.lost_events);
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  out += '\n';
  return out;
}

}  // namespace gpumem
