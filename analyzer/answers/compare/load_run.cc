// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/compare/load_run.h"

#include <utility>

#include "base/status_macros.h"
#include "ledger/load/findings.h"
#include "ledger/load/moment.h"
#include "ledger/load/window.h"

namespace gpumem {

absl::StatusOr<std::vector<RunFacts>> LoadRunFacts(const MomentsRequest& request, LoadedTrace* loaded) {
  AttributionRequest asked;
  asked.steps = true;
  for (const std::string& moment : request.moments) {
    GPUMEM_ASSIGN_OR_RETURN(asked.moments.emplace_back(), NamedMoment(moment, loaded));
  }
  GPUMEM_ASSIGN_OR_RETURN(const LoadedFindings findings, LoadFindings(std::move(asked), request.rules_file, loaded));
  loaded->input.leaks = nullptr;  // both end here
  loaded->input.attribution = nullptr;
  return RunFactsOf(request.moments, *findings.attribution, findings.leaks.get(), loaded);
}

absl::StatusOr<std::vector<RunFacts>> RunFactsOf(const std::vector<std::string>& moments,
                                                 const Attribution& attribution, const LeakFindings* leaks,
                                                 LoadedTrace* loaded) {
  std::vector<RunFacts> result;
  for (size_t i = 0; i < moments.size(); ++i) {
    const Moment& moment = attribution.moments[i];
    if (!moment.found && moments[i] != "peak") return NoSuchMoment(moments[i], *loaded);
    result.push_back(
        ReadRunFacts(loaded->input, loaded->stacks.objects(), attribution, moment, leaks, {loaded->file, moments[i]}));
    result.back().recomputes = UsesCheckpointing(loaded->stacks);
  }
  return result;
}

}  // namespace gpumem
