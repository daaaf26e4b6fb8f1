// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/launch/workspaces.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/format.h"

namespace gpumem::plan {
namespace {

// " cuDNN (12 operations), cuFFT (1 operation) were measured on this GPU."
std::string Sentence(const std::vector<WorkspaceUse>& uses, uint64_t WorkspaceUse::*count, absl::string_view what) {
  std::vector<std::string> names;
  for (const WorkspaceUse& use : uses) {
    if (use.*count > 0)
      names.push_back(absl::StrCat(use.library, " (", FormatCountOf(use.*count, "operation", "operations"), ")"));
  }
  return names.empty() ? "" : absl::StrCat(" Those of ", absl::StrJoin(names, ", "), " ", what);
}

}  // namespace

std::vector<std::string> UnknownLibraries(const std::vector<WorkspaceUse>& uses) {
  std::vector<std::string> names;
  for (const WorkspaceUse& use : uses) {
    if (use.unknown > 0) names.push_back(use.library);
  }
  return names;
}

bool HasBounds(const std::vector<WorkspaceUse>& uses) {
  return std::any_of(uses.begin(), uses.end(), [](const WorkspaceUse& use) { return use.largest_bound > 0; });
}

std::string WorkspacesText(const std::vector<WorkspaceUse>& uses) {
  return absl::StrCat(
      Sentence(uses, &WorkspaceUse::measured, "are as measured on this GPU."),
      Sentence(uses, &WorkspaceUse::similar,
               "are as measured on another GPU of this capability, or with another version of the library."),
      Sentence(uses, &WorkspaceUse::set, "are as SIMCUDA_CUDNN_WS and the like set them."),
      Sentence(uses, &WorkspaceUse::bounded, "count with the most that they can be (docs/workspaces.md)."),
      Sentence(uses, &WorkspaceUse::unknown, "are not measured for this GPU and count as 0."),
      Sentence(uses, &WorkspaceUse::without_bound, "have no bound that is known either."));
}

}  // namespace gpumem::plan
