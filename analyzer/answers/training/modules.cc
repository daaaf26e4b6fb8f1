// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "answers/parts/attribution_parts.h"
#include "answers/parts/categories.h"
#include "answers/training/training.h"
#include "base/format.h"
#include "ledger/attribution/attribution.h"
#include "ledger/stacks/names.h"

namespace gpumem {
namespace {

AnswerColumn<ModuleUse> ModuleNumber(const char* key, const char* title, Unit unit, const char* meaning,
                                     uint64_t ModuleUse::*number) {
  return {key, title, unit, meaning, [number](const ModuleUse& use) { return use.*number; }};
}

std::vector<AnswerColumn<ModuleUse>> ModuleNameColumns(const Attribution& of) {
  constexpr char kModule[] = "as in `at`";
  const auto row = [&of](const ModuleUse& use) -> const ModuleRow& { return of.modules[use.module]; };
  const auto text_or_null = [](const std::string& text) { return Datum::If(!text.empty(), text); };
  return {
      {"fqn", "", Unit::kText, kModule,
       [=](const ModuleUse& use) { return Datum::If(row(use).root != 0, row(use).fqn); }},
      {"class", "", Unit::kText, kModule, [=](const ModuleUse& use) { return text_or_null(row(use).class_name); }},
      {"root_class", "", Unit::kText, kModule, [=](const ModuleUse& use) { return text_or_null(row(use).root_class); }},
      {"component", "", Unit::kText, kModule, [=](const ModuleUse& use) { return row(use).component; }},
      {"stage", "", Unit::kText, "in which its calls allocated",
       [](const ModuleUse& use) { return StageName(use.stage); }},
  };
}

std::vector<AnswerColumn<ModuleUse>> ModuleColumns(const Attribution& of) {
  constexpr char kAll[] = "all of its blocks, freed or not";
  constexpr char kSaved[] = "of these blocks: those that autograd kept; most bytes of them at once";
  constexpr char kTemporary[] = "of these blocks: temporaries";
  const auto inclusive = [&of](const ModuleUse& use) { return of.inclusive_peaks[use.module]; };
  std::vector<AnswerColumn<ModuleUse>> columns = ModuleNameColumns(of);
  const std::vector<AnswerColumn<ModuleUse>> numbers = {
      ModuleNumber("allocated_bytes", "total allocated", Unit::kBytes, kAll, &ModuleUse::allocated_bytes),
      ModuleNumber("count", "count", Unit::kCount, kAll, &ModuleUse::count),
      ModuleNumber("recomputed_bytes", "", Unit::kBytes, "of these: by forward passes that ran again",
                   &ModuleUse::recomputed_bytes),
      ModuleNumber(
          "loss_bytes", "", Unit::kBytes,
          "of these: by functions that compute a loss; the component `loss`, unless a module has a component of its "
          "own",
          &ModuleUse::loss_bytes),
      ModuleNumber("peak_bytes", "peak", Unit::kBytes, "most bytes at once", &ModuleUse::peak_bytes),
      {"module_peak_bytes", "", Unit::kBytes, "most bytes at once of all its stages",
       [&of](const ModuleUse& use) { return of.module_peaks[use.module]; }},
      {"inclusive_peak_bytes", "incl. submodules", Unit::kBytes, "the same with all modules that it calls", inclusive,
       [=](const ModuleUse& use) { return use.module == 0 ? "-" : FormatBytes(inclusive(use)); }},
      ModuleNumber("saved_bytes", "", Unit::kBytes, kSaved, &ModuleUse::saved_bytes),
      ModuleNumber("saved_count", "", Unit::kCount, kSaved, &ModuleUse::saved_count),
      ModuleNumber("saved_peak_bytes", "saved", Unit::kBytesOrDash, kSaved, &ModuleUse::saved_peak_bytes),
      ModuleNumber("temporary_bytes", "temporary", Unit::kBytesOrDash, kTemporary, &ModuleUse::temporary_bytes),
      ModuleNumber("temporary_count", "", Unit::kCount, kTemporary, &ModuleUse::temporary_count),
      {"stage_path", "stage", Unit::kText, "the stage inside those that the program named",
       [&of](const ModuleUse& use) { return StagePath(of.user_stages[use.user_stage], use.stage); },
       [&of](const ModuleUse& use) { return StagePathTitle(of.user_stages[use.user_stage], use.stage); }},
      {"", "module", Unit::kText, "", nullptr,
       [&of](const ModuleUse& use) { return ModuleLabel(of.modules[use.module]); }},
  };
  columns.insert(columns.end(), numbers.begin(), numbers.end());
  return columns;
}

}  // namespace

Document ModulesAnswer(const ReportInput& input, size_t top) {
  const Attribution& attribution = *input.attribution;
  Document answer = AttributedAnswer("modules", input);
  answer.Heading(absl::StrCat("Modules on ", DeviceLabel(attribution.device)),
                 "what their calls allocated, all in all; most at once; with all modules that they call; kept by "
                 "autograd");
  answer.Table(
      "modules", "one object for each module and stage, by allocated bytes", ModuleColumns(attribution),
      attribution.module_uses,
      {.count = Shown(attribution.module_uses.size(), top), .layout = JsonLayout::kOneLine, .counts_rest = true});
  return answer;
}

}  // namespace gpumem
