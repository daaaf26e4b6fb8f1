// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/cli/plan_check.h"

#include <utility>

#include "absl/strings/str_join.h"
#include "answers/compare/diff.h"
#include "answers/compare/load_run.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "planner/predict/forecast_json.h"
#include "planner/predict/verdict.h"

namespace gpumem::plan {

void PlanCheck::AddFlags(Flags* flags) {
  flags->Add("--check", &file_, "hold the answer against the limits of a YAML file (docs/ci.md)").Value("FILE");
  flags->Add("--format", &format_, "of --check: text, junit or github (annotations)")
      .Value("FORMAT")
      .OneOf({"text", "junit", "github"});
}

absl::Status PlanCheck::Read(Console* console) {
  if (!given()) {
    return format_ == "text" ? absl::OkStatus()
                             : absl::InvalidArgumentError("--format is for --check budget.yaml, which is missing");
  }
  GPUMEM_ASSIGN_OR_RETURN(limits_, ReadLimits(file_));
  GPUMEM_ASSIGN_OR_RETURN(baseline_, LoadBaseline(TraceOptions(), limits_, console));
  return absl::OkStatus();
}

std::string PlanCheck::WhyLarger(LoadedTrace* loaded) const {
  if (loaded == nullptr || !baseline_.facts.has_value()) return "";
  const absl::StatusOr<std::vector<RunFacts>> facts = LoadRunFacts({{"peak"}, ""}, loaded);
  return facts.ok() ? DiffRuns(*baseline_.facts, facts->front(), false).headline : "";
}

// By way of the JSON, so that `gpumemshim check plan.json` says the same.
std::vector<CheckLine> PlanCheck::Lines(const Forecast& forecast, const std::string& why_larger) const {
  absl::StatusOr<CheckedRun> run = ParsePlanJson(ForecastJson(forecast, nullptr), absl::StrJoin(forecast.command, " "));
  if (!run.ok()) return {};
  return CheckRun(*run, limits_, limits_.baseline.empty() ? nullptr : &baseline_.checked, why_larger);
}

std::string PlanCheck::Text(const std::vector<CheckLine>& lines) const {
  return FormatCheck(lines, CheckFormatOf(format_));
}

int PlanCheck::ExitCode(const Forecast& forecast, const std::vector<CheckLine>& lines) {
  const bool has_answer = !lines.empty() && Assess(forecast).verdict != Verdict::kUnknown;
  return has_answer ? ExitCodeOfCheck(lines) : kExitCannotRead;
}

}  // namespace gpumem::plan
