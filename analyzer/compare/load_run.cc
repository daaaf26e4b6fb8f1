// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "compare/load_run.h"

#include <memory>
#include <utility>

#include "base/status_macros.h"
#include "loading/attribute.h"
#include "loading/leaks.h"
#include "loading/moment.h"
#include "trace/import_info.h"

namespace gpumem {

absl::StatusOr<std::vector<RunFacts>> LoadRunFacts(const MomentsRequest& request, LoadedTrace* loaded) {
  AttributionRequest asked;
  asked.steps = true;
  for (const std::string& moment : request.moments) asked.moments.push_back(ParseMoment(moment, *loaded));
  GPUMEM_ASSIGN_OR_RETURN(const auto finder, LoadedLeakFinder::Make("", loaded));
  GPUMEM_ASSIGN_OR_RETURN(const auto attributor, LoadedAttributor::Make(std::move(asked), request.rules_file, loaded));
  GPUMEM_RETURN_IF_ERROR(RunAnalyses(*loaded, {finder->analysis(), attributor->analysis()}));
  const std::unique_ptr<LeakFindings> leaks = finder->Take(loaded);
  const std::unique_ptr<Attribution> attribution = attributor->Take(loaded);
  loaded->input.leaks = nullptr;  // both end here
  loaded->input.attribution = nullptr;
  const bool is_import = ImportInfoOf(loaded->analysis.process.settings).any();
  const std::string name = is_import && !request.place.empty() ? request.place : loaded->analysis.path;
  std::vector<RunFacts> result;
  for (size_t i = 0; i < request.moments.size(); ++i) {
    const Moment& moment = attribution->moments[i];
    if (!moment.found && request.moments[i] != "peak") return NoSuchMoment(request.moments[i], *loaded);
    result.push_back(ReadRunFacts(loaded->input, loaded->stacks.objects(), *attribution, moment, leaks.get(),
                                  {name, request.moments[i]}));
    result.back().recomputes = UsesCheckpointing(loaded->stacks);
  }
  return result;
}

}  // namespace gpumem
