// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// LoadRunFacts: the RunFacts of moments of a loaded trace, by the names that users type ("peak", "step 10", a mark).
//
//   GPUMEM_ASSIGN_OR_RETURN(const auto moments, LoadRunFacts({{"step 10", "step 500"}}, loaded.get()));
//
// Not thread-safe. InvalidArgument where the trace has no such moment, any other code where it cannot be read again.

#ifndef GPUMEM_ANALYZER_ANSWERS_COMPARE_LOAD_RUN_H_
#define GPUMEM_ANALYZER_ANSWERS_COMPARE_LOAD_RUN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "answers/compare/run_facts.h"
#include "ledger/load/load_trace.h"

namespace gpumem {

struct MomentsRequest {
  std::vector<std::string> moments{"peak"};
  std::string rules_file;  // of attribution; "" = none
};

// One for each moment. A trace without any memory gives facts without a moment for "peak".
absl::StatusOr<std::vector<RunFacts>> LoadRunFacts(const MomentsRequest& request, LoadedTrace* loaded);

// The same of moments that are known already, without a replay: `attribution` has them, in this order, and steps.
absl::StatusOr<std::vector<RunFacts>> RunFactsOf(const std::vector<std::string>& moments,
                                                 const Attribution& attribution, const LeakFindings* leaks,
                                                 LoadedTrace* loaded);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_COMPARE_LOAD_RUN_H_
