// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "compare/load_run.h"

#include <utility>

#include "base/status_macros.h"
#include "loading/findings.h"
#include "loading/moment.h"
#include "trace/import_info.h"

namespace gpumem {

absl::StatusOr<std::vector<RunFacts>> LoadRunFacts(const MomentsRequest& request, LoadedTrace* loaded) {
  AttributionRequest asked;
  asked.steps = true;
  for (const std::string& moment : request.moments) asked.moments.push_back(ParseMoment(moment, *loaded));
  GPUMEM_ASSIGN_OR_RETURN(const LoadedFindings findings, LoadFindings(std::move(asked), request.rules_file, loaded));
  loaded->input.leaks = nullptr;  // both end here
  loaded->input.attribution = nullptr;
  const bool is_import = ImportInfoOf(loaded->analysis.process.settings).any();
  const std::string name = is_import && !request.place.empty() ? request.place : loaded->analysis.path;
  std::vector<RunFacts> result;
  for (size_t i = 0; i < request.moments.size(); ++i) {
    const Moment& moment = findings.attribution->moments[i];
    if (!moment.found && request.moments[i] != "peak") return NoSuchMoment(request.moments[i], *loaded);
    result.push_back(ReadRunFacts(loaded->input, loaded->stacks.objects(), *findings.attribution, moment,
                                  findings.leaks.get(), {name, request.moments[i]}));
    result.back().recomputes = UsesCheckpointing(loaded->stacks);
  }
  return result;
}

}  // namespace gpumem
