// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "cli/compare/load_checked_run.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "answers/compare/load_run.h"
#include "answers/compare/text_file.h"
#include "base/status_macros.h"

namespace gpumem {

absl::StatusOr<LoadedRun> LoadCheckedRun(const TraceOptions& options, const std::string& place, Console* console) {
  LoadedRun run;
  if (absl::EndsWith(place, ".json")) {
    GPUMEM_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(place));
    GPUMEM_ASSIGN_OR_RETURN(run.checked, ParsePlanJson(text, place));
    return run;
  }
  GPUMEM_ASSIGN_OR_RETURN(const auto loaded, LoadTrace(options, {place}, console));
  GPUMEM_ASSIGN_OR_RETURN(auto facts, LoadRunFacts({{"peak"}, ""}, loaded.get()));
  run.facts = std::move(facts.front());
  run.checked = CheckedRunOf(loaded->analysis, *run.facts);
  return run;
}

absl::StatusOr<LoadedRun> LoadBaseline(const TraceOptions& options, const Limits& limits, Console* console) {
  if (limits.baseline.empty()) return LoadedRun();
  GPUMEM_ASSIGN_OR_RETURN(LoadedRun baseline, LoadCheckedRun(options, limits.baseline, console));
  if (!baseline.checked.doubt.empty() || !baseline.checked.peak)
    console->Complain(absl::StrCat("the baseline ", limits.baseline, " is uncertain: ", baseline.checked.doubt));
  return baseline;
}

CheckFormat CheckFormatOf(const std::string& name) {
  if (name == "json") return CheckFormat::kJson;
  if (name == "junit") return CheckFormat::kJUnit;
  return name == "github" ? CheckFormat::kGitHub : CheckFormat::kText;
}

}  // namespace gpumem
