// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What grows, and memory by category, of a loaded trace, in replays that both share.
//
//   AttributionRequest request;
//   request.steps = true;
//   GPUMEM_ASSIGN_OR_RETURN(const LoadedFindings findings, LoadFindings(std::move(request), "", loaded.get()));
//   loaded->input.leaks;  // and .attribution: set while `findings` is

#ifndef GPUMEM_ANALYZER_LEDGER_LOAD_FINDINGS_H_
#define GPUMEM_ANALYZER_LEDGER_LOAD_FINDINGS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "ledger/load/attribute.h"
#include "ledger/load/leaks.h"
#include "ledger/load/load_trace.h"

namespace gpumem {

struct LoadedFindings {
  std::unique_ptr<LeakFindings> leaks;
  std::unique_ptr<Attribution> attribution;
};

// Errors as those of LoadLeaks and AttributeLoaded.
absl::StatusOr<LoadedFindings> LoadFindings(AttributionRequest request, const std::string& rules_file,
                                            LoadedTrace* loaded);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_LOAD_FINDINGS_H_
