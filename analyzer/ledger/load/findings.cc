// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/load/findings.h"

#include <utility>

#include "base/status_macros.h"

namespace gpumem {

absl::StatusOr<LoadedFindings> LoadFindings(AttributionRequest request, const std::string& rules_file,
                                            LoadedTrace* loaded) {
  GPUMEM_ASSIGN_OR_RETURN(const auto finder, LoadedLeakFinder::Make("", loaded));
  GPUMEM_ASSIGN_OR_RETURN(const auto attributor, LoadedAttributor::Make(std::move(request), rules_file, loaded));
  GPUMEM_RETURN_IF_ERROR(RunAnalyses(*loaded, {finder->analysis(), attributor->analysis()}));
  return LoadedFindings{finder->Take(loaded), attributor->Take(loaded)};
}

}  // namespace gpumem
