// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "answers/report/sections.h"
#include "answers/report/stack_rows.h"
#include "answers/report/trace_answer.h"
#include "ledger/stacks/names.h"

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

Document LiveSetFields(const LiveSet& live, size_t top, const ReportInput& input) {
  const Stage stage = StageWhenReached(live, input);
  Document fields;
  fields.Field("measure", MeasureName(live.measure), "`allocated`, `reserved`, `other` or `total`: what the set is of");
  fields.Field("time_ns", input.Since(live.time_ns), "its instant");
  fields.Field("bytes", live.bytes, "");
  fields.Field("count", live.block_count, "");
  fields.Field("phase", Datum::If(stage != Stage::kNone, StageTitle(stage)),
               "what reached it: `forward`, `backward`, `optimizer step`, `model construction` and so on "
               "([attribution.md](attribution.md)), as far as its stack shows, else null");
  fields.Field("where", PlaceDatum(live.time_ns, input), "");
  fields.Field("values", ValuesDatum(live.values), "object: all four series at that instant");
  fields.Field("stack_count", live.stacks.size(), "how many there are without a limit");
  AddStacks("stacks", live.stacks, top, input, &fields);
  return fields;
}

}  // namespace gpumem
