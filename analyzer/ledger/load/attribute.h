// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Memory by category, of a loaded trace: attribution/ asked with the trace's names and the user's rules.
//
//   AttributionRequest request;
//   request.moments = {ParseMoment("peak", *loaded)};
//   GPUMEM_ASSIGN_OR_RETURN(const auto attribution, AttributeLoaded(request, rules_file, loaded.get()));
//
// Not thread-safe.

#ifndef GPUMEM_ANALYZER_LEDGER_LOAD_ATTRIBUTE_H_
#define GPUMEM_ANALYZER_LEDGER_LOAD_ATTRIBUTE_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ledger/attribution/attributor.h"
#include "ledger/load/load_trace.h"

namespace gpumem {

// An Attributor of a loaded trace, for RunAnalyses. `request.device` is set here: to the one with the largest peak.
class LoadedAttributor {
 public:
  // `rules_file`: rules that go before the built-in ones (docs/attribution.md), "" = none. InvalidArgument where the
  // rules make no sense or cannot be read.
  static absl::StatusOr<std::unique_ptr<LoadedAttributor>> Make(AttributionRequest request,
                                                                const std::string& rules_file, LoadedTrace* loaded);
  // The same, whatever is kept.
  static absl::StatusOr<std::unique_ptr<LoadedAttributor>> MakeReplaying(AttributionRequest request,
                                                                         const std::string& rules_file,
                                                                         LoadedTrace* loaded);
  // Null where no replay is needed, since the answer was kept (saved_answers.h).
  TwoPassAnalysis* analysis() { return attributor_ ? &*attributor_ : nullptr; }
  // After the replays. Sets loaded->input.attribution to the result, which must stay where it is.
  std::unique_ptr<Attribution> Take(LoadedTrace* loaded);

 private:
  Rules rules_;
  std::optional<Attributor> attributor_;
  std::unique_ptr<Attribution> kept_;
};

// All of this in one call; any other code than InvalidArgument where the trace cannot be read again.
absl::StatusOr<std::unique_ptr<Attribution>> AttributeLoaded(AttributionRequest request, const std::string& rules_file,
                                                             LoadedTrace* loaded);

// Whether the program's objects or autograd said anything in this trace: where not, a short report leaves categories
// out.
bool SaysWhatFor(const Analysis& analysis);

// The moments that the program asked for (gpumemshim_snapshot), the last ones where there are very many.
std::vector<MomentQuery> SnapshotQueries(const Analysis& analysis);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_LOAD_ATTRIBUTE_H_
