// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/report/live_moment.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace gpumem {
const StackUse* ReachedBy(const LiveSet& live) {
  const auto found = std::find_if(live.stacks.begin(), live.stacks.end(),
                                  [&live](const StackUse& use) { return use.newest_ns == live.time_ns; });
  return found == live.stacks.end() ? nullptr : &*found;
}

Stage StageWhenReached(const LiveSet& live, const ReportInput& input) {
  const StackUse* const reached = ReachedBy(live);
  return reached == nullptr ? Stage::kNone : StageOf(input.stacks->Frames(reached->stack_id));
}

std::string WhenText(const LiveSet& live, const ReportInput& input) {
  const Stage stage = StageWhenReached(live, input);
  return stage == Stage::kNone ? "" : absl::StrCat(" in ", StageTitle(stage));
}

}  // namespace gpumem
