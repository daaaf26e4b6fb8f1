// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// LoadCheckedRun: what is held against limits, from a trace or from what gpumemshim plan --json wrote (NAME.json).
//
//   GPUMEM_ASSIGN_OR_RETURN(const LoadedRun run, LoadCheckedRun(options, "run.gmtrace", console));
//   CheckRun(run.checked, limits, nullptr, "")
//
// Failure: that of LoadTrace, and InvalidArgument for a file that is not a plan.

#ifndef GPUMEM_ANALYZER_CLI_COMPARE_LOAD_CHECKED_RUN_H_
#define GPUMEM_ANALYZER_CLI_COMPARE_LOAD_CHECKED_RUN_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "answers/compare/check.h"
#include "answers/compare/run_facts.h"
#include "base/console.h"
#include "cli/trace_options.h"

namespace gpumem {

// A run of which more is known than what is checked, where it is a trace.
struct LoadedRun {
  CheckedRun checked;
  std::optional<RunFacts> facts;
};

absl::StatusOr<LoadedRun> LoadCheckedRun(const TraceOptions& options, const std::string& place, Console* console);

// The same for the baseline of limits; one that is uncertain is complained about. Empty where there is none.
absl::StatusOr<LoadedRun> LoadBaseline(const TraceOptions& options, const Limits& limits, Console* console);

// "text", "json", "junit" or "github".
CheckFormat CheckFormatOf(const std::string& name);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_CLI_COMPARE_LOAD_CHECKED_RUN_H_
