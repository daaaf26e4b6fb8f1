// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "report/phase.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "attribution/stage.h"

namespace gpumem {
absl::string_view PhaseOf(const std::vector<ResolvedFrame>& frames) {
  const Stage stage = StageOf(frames);
  return stage == Stage::kNone ? "" : StageTitle(stage);
}

const StackUse* ReachedBy(const LiveSet& live) {
  const auto found = std::find_if(live.stacks.begin(), live.stacks.end(),
                                  [&live](const StackUse& use) { return use.newest_ns == live.time_ns; });
  return found == live.stacks.end() ? nullptr : &*found;
}

std::string WhenText(const LiveSet& live, const ReportInput& input) {
  const StackUse* const reached = ReachedBy(live);
  if (reached == nullptr) return "";
  const absl::string_view phase = PhaseOf(input.stacks->Frames(reached->stack_id));
  return phase.empty() ? "" : absl::StrCat(" in ", phase);
}

}  // namespace gpumem
