// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "answers/parts/categories.h"
#include "answers/training/training.h"
#include "base/format.h"
#include "ledger/attribution/attribution.h"
#include "ledger/stacks/names.h"
#include "render/instants.h"

namespace gpumem {
namespace {

Datum NullIfZero(uint64_t number) { return Datum::If(number != 0, number); }

// A number that people get where a step has one of at least `least`: what a trainer counts, and accumulated gradients.
AnswerColumn<AttributedStep> Counted(const char* key, const char* title, const char* meaning, uint64_t Step::*number,
                                     uint64_t least, bool is_null_at_zero) {
  AnswerColumn<AttributedStep> column(
      key, title, Unit::kNumber, meaning,
      [=](const AttributedStep& each) {
        return is_null_at_zero ? NullIfZero(each.step.*number) : Datum(each.step.*number);
      },
      [=](const AttributedStep& each) { return absl::StrCat(each.step.*number); });
  column.telling = [=](const AttributedStep& each) { return each.step.*number >= least; };
  return column;
}

std::vector<AnswerColumn<AttributedStep>> StepColumns(const ReportInput& input) {
  constexpr char kTimes[] = "times", kBytes[] = "PyTorch's allocated bytes";
  constexpr char kTrainer[] = "as Hugging Face's or Lightning's Trainer counts them, from 1; null where none does";
  constexpr char kCategories[] = "at the peak and at the end, as in `at`";
  const auto since = [&input](uint64_t time_ns) { return input.Since(time_ns); };
  return {
      {"step", "step", Unit::kNumber, "its number", [](const AttributedStep& each) { return each.step.number; },
       [](const AttributedStep& each) { return absl::StrCat(each.step.number, each.step.complete ? "" : "*"); }},
      {"complete", "", Unit::kText, "false where the trace ends in it",
       [](const AttributedStep& each) { return each.step.complete; }},
      Counted("epoch", "epoch", kTrainer, &Step::epoch, 1, true),
      Counted("trainer_step", "trainer's", kTrainer, &Step::trainer_step, 1, true),
      Counted("backward_passes", "passes",
              "how many backward passes allocated in it: more than one where gradients are accumulated",
              &Step::backward_passes, 2, false),
      {"start_ns", "begins", Unit::kTime, kTimes,
       [=](const AttributedStep& each) { return since(each.step.start.time_ns); }},
      {"start_bytes", "start", Unit::kBytes, kBytes,
       [](const AttributedStep& each) { return each.step.start.values.allocated; }},
      {"peak_bytes", "peak", Unit::kBytes, kBytes,
       [](const AttributedStep& each) { return each.step.peak.values.allocated; }},
      {"peak_ns", "peak at", Unit::kTime, kTimes,
       [=](const AttributedStep& each) { return since(each.step.peak.time_ns); }},
      {"end_ns", "", Unit::kTime, kTimes, [=](const AttributedStep& each) { return since(each.step.end.time_ns); }},
      {"end_bytes", "end", Unit::kBytes, kBytes,
       [](const AttributedStep& each) { return each.step.end.values.allocated; }},
      {"growth_bytes", "growth", Unit::kGrowth, "end minus start; negative where it shrank",
       [](const AttributedStep& each) { return each.step.GrowthBytes(); }},
      {"reserved_bytes", "", Unit::kBytes, "at the peak",
       [](const AttributedStep& each) { return each.step.peak.values.reserved; }},
      {"categories", "", Unit::kObject, kCategories,
       [](const AttributedStep& each) { return CategoriesDatum(each.at_peak); }},
      {"categories_at_end", "", Unit::kObject, kCategories,
       [](const AttributedStep& each) { return CategoriesDatum(each.at_end); }},
      {"", "peak made of", Unit::kText, "", nullptr,
       [](const AttributedStep& each) { return LargestOfBlocks(each.at_peak); }},
  };
}

// Set-up, an evaluation between steps, a checkpoint: what lies in no step may be higher than all of them.
void AddPeakOutsideSteps(const ReportInput& input, Document* answer) {
  const DeviceAnalysis* const device = LargestDevice(*input.analysis);
  if (device == nullptr || device->device != input.attribution->device || !UsesTorch(*device)) return;
  const SeriesPeak& peak = PeakOf(*device, Measure::kAllocated);
  const std::vector<AttributedStep>& steps = input.attribution->steps;
  const bool is_inside = std::any_of(steps.begin(), steps.end(), [&](const AttributedStep& each) {
    return each.step.peak.values.allocated >= peak.bytes;
  });
  if (is_inside) return;
  answer->Paragraph(
      "  ", absl::StrCat("The run's peak is in no step: ", FormatBytes(peak.bytes), " ", AtPeak(peak.time_ns, input),
                         " (set-up, evaluation or a checkpoint). gpumemshim stages shows which."));
}

}  // namespace

Document StepsAnswer(const ReportInput& input, size_t top) {
  constexpr absl::string_view kSources[] = {"none", "optimizer", "marks"};
  const std::vector<AttributedStep>& steps = input.attribution->steps;
  const size_t shown = Shown(steps.size(), top);
  Document answer = AttributedAnswer("steps", input);
  answer.Field("counted_by", kSources[static_cast<size_t>(input.attribution->step_source)],
               "`optimizer`, `marks` (the program's own), or `none`");
  if (steps.empty()) {
    answer.Gap();
    answer.Line("No steps: no optimizer stepped, and the program marked none (docs/marks.md).");
  } else {
    answer.Heading(absl::StrCat("Steps on ", DeviceLabel(input.attribution->device)),
                   "PyTorch's allocated bytes; the largest categories are those of the peak");
  }
  Document::Rows last;
  last.first = steps.size() - shown;
  last.is_shown = !steps.empty();
  answer.Table("steps", "one object a step, in order; `--top K` leaves the last K", StepColumns(input), steps, last);
  if (steps.empty()) return answer;
  if (last.first != 0) answer.Line(absl::StrCat("  ", last.first, " steps before these"), Tone::kAside);
  if (!steps.back().step.complete) answer.Line("  * the trace ends in it", Tone::kAside);
  AddPeakOutsideSteps(input, &answer);
  return answer;
}

}  // namespace gpumem
