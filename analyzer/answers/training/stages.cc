// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "answers/parts/attribution_parts.h"
#include "answers/parts/categories.h"
#include "answers/training/training.h"
#include "base/format.h"
#include "ledger/attribution/attribution.h"
#include "ledger/attribution/stage_log.h"
#include "ledger/stacks/names.h"

namespace gpumem {
namespace {

constexpr char kFirstBegin[] = "when it first began";
constexpr char kLastEnd[] = "when it last ended";
constexpr char kHighestMoment[] = "its highest moment, and PyTorch's segments and all CUDA memory then";

bool IsOfTorch(const ReportInput& input) { return input.attribution->measure == Measure::kAllocated; }

std::vector<AnswerColumn<AttributedStage>> StageNameColumns(bool of_torch) {
  return {
      {"stage", "stage", Unit::kText, "`model_load`, `train > training`; of a named one its name with those around it",
       [](const AttributedStage& each) { return StageLabel(each.row, RunPartName(each.row.part)); },
       [](const AttributedStage& each) { return StageLabel(each.row, RunPartTitle(each.row.part)); }},
      {"", "peak made of", Unit::kText, "", nullptr,
       [=](const AttributedStage& each) {
         return of_torch ? LargestOfBlocks(each.at_peak) : LargestCategories(each.at_peak);
       }},
      {"derived", "", Unit::kText,
       "`model_load`, `data_preparation`, `wrapping`, `optimizer_setup`, `privacy_setup`, `lora_setup`, `training`, "
       "`inference`, `evaluation`, `checkpoint_load`, `checkpoint_save`, `other`; null for a stage that the program "
       "named",
       [](const AttributedStage& each) { return Datum::If(!each.row.is_named, RunPartName(each.row.part)); }},
      {"named", "", Unit::kText, "the stage that the program named: itself, or the one around; null where none is",
       [](const AttributedStage& each) { return Datum::If(!each.row.user.empty(), each.row.user); }},
      {"complete", "", Unit::kText, "false where the trace ends in it",
       [](const AttributedStage& each) { return each.row.complete; }},
  };
}

std::vector<AnswerColumn<AttributedStage>> StageColumns(const ReportInput& input) {
  constexpr char kCategories[] = "at the peak and at the last end, as in `at`";
  const bool of_torch = IsOfTorch(input);
  const auto since = [&input](const StepPoint& at) { return input.Since(at.time_ns); };
  const auto bytes = [of_torch](const StepPoint& at) { return of_torch ? at.values.allocated : at.values.total; };
  std::vector<AnswerColumn<AttributedStage>> columns = {
      {"start_ns", "begins", Unit::kTime, kFirstBegin,
       [=](const AttributedStage& each) { return since(each.row.start); }},
      {"took_ns", "took", Unit::kTime, "all in all", [](const AttributedStage& each) { return each.row.time_ns; }},
      {"count", "times", Unit::kCount, "how often it came", [](const AttributedStage& each) { return each.row.count; },
       [](const AttributedStage& each) {
         return absl::StrCat(FormatCount(each.row.count), each.row.complete ? "" : "*");
       }},
      {"start_bytes", "start", Unit::kBytes, kFirstBegin,
       [=](const AttributedStage& each) { return bytes(each.row.start); }},
      {"peak_ns", "", Unit::kTime, kHighestMoment, [=](const AttributedStage& each) { return since(each.row.peak); }},
      {"peak_bytes", "peak", Unit::kBytes, kHighestMoment,
       [=](const AttributedStage& each) { return bytes(each.row.peak); }},
      {"reserved_bytes", "", Unit::kBytes, kHighestMoment,
       [](const AttributedStage& each) { return each.row.peak.values.reserved; }},
      {"total_bytes", "", Unit::kBytes, kHighestMoment,
       [](const AttributedStage& each) { return each.row.peak.values.total; }},
      {"end_ns", "", Unit::kTime, kLastEnd, [=](const AttributedStage& each) { return since(each.row.end); }},
      {"end_bytes", "end", Unit::kBytes, kLastEnd, [=](const AttributedStage& each) { return bytes(each.row.end); }},
      {"growth_bytes", "growth", Unit::kGrowth, "end minus start of each time, added up",
       [](const AttributedStage& each) { return each.row.growth_bytes; }},
  };
  const std::vector<AnswerColumn<AttributedStage>> names = StageNameColumns(of_torch);
  columns.insert(columns.end(), names.begin(), names.end());
  columns.push_back({"categories", "", Unit::kObject, kCategories,
                     [](const AttributedStage& each) { return CategoriesDatum(each.at_peak); }});
  columns.push_back({"categories_at_end", "", Unit::kObject, kCategories,
                     [](const AttributedStage& each) { return CategoriesDatum(each.at_end); }});
  return columns;
}

// For people: derived and named stages apart.
void AddStageList(bool named, size_t top, const ReportInput& input, Document* answer) {
  auto rows = std::make_shared<std::vector<AttributedStage>>();
  for (const AttributedStage& each : input.attribution->stages) {
    if (each.row.is_named == named) rows->push_back(each);
  }
  if (rows->empty()) return;
  answer->Heading(
      absl::StrCat(named ? "Stages that the program named, on " : "Stages on ", DeviceLabel(input.attribution->device)),
      IsOfTorch(input) ? "PyTorch's allocated bytes" : "all CUDA memory");
  const size_t shown = Shown(rows->size(), top);
  answer->Table("", "", StageColumns(input), std::shared_ptr<const std::vector<AttributedStage>>(rows),
                {.count = shown, .counts_rest = true});
}

}  // namespace

Document StagesAnswer(const ReportInput& input, size_t top) {
  const Attribution& attribution = *input.attribution;
  const std::vector<AttributedStage>& stages = attribution.stages;
  Document answer = AttributedAnswer("stages", input);
  answer.Field("measure", IsOfTorch(input) ? "allocated" : "total",
               "what peak and growth are of: `allocated`, or `total` where PyTorch did nothing");
  Document::Rows first;
  first.count = Shown(stages.size(), top);
  first.is_shown = false;
  answer.Table("stages", "one object a stage", StageColumns(input), stages, first);
  answer.Field("unlisted_stages", attribution.unlisted_stages,
               "times that a stage came which is in no row: beyond 2,000 rows, or nested deeper than 64");
  if (stages.empty()) {
    answer.Gap();
    answer.Line("No stages: nothing was allocated whose stack is known, and the program named none (docs/marks.md).");
    return answer;
  }
  AddStageList(false, top, input, &answer);
  AddStageList(true, top, input, &answer);
  if (std::any_of(stages.begin(), stages.end(), [](const AttributedStage& each) { return !each.row.complete; }))
    answer.Line("  * the trace ends in it", Tone::kAside);
  if (attribution.unlisted_stages != 0) {
    answer.Line(absl::StrCat("  ", FormatCount(attribution.unlisted_stages), " stretches of stages beyond the first ",
                             FormatCount(StageLog::kMaxRows), " are in no row"),
                Tone::kWarning);
  }
  return answer;
}

}  // namespace gpumem
