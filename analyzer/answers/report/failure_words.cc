// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/report/failure_words.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "answers/oom/oom_story.h"
#include "answers/report/reserve_causes.h"
#include "answers/report/sections.h"
#include "answers/report/stack_rows.h"
#include "base/format.h"
#include "ledger/stacks/names.h"
#include "render/instants.h"

namespace gpumem {
namespace {

// The line that has most of the peak of the device that had no room.
std::string TopSite(const OomEvent& oom, const ReportInput& input) {
  for (const DeviceAnalysis& device : input.analysis->devices) {
    if (device.device != oom.device) continue;
    const std::vector<StackGroup> lines =
        GroupStacks(LiveAtPeak(device, DefaultMeasure(device)).stacks, input, /*by_stack=*/false);
    const StackGroup* const line = TopLine(lines);
    return line == nullptr ? "" : line->view.site;
  }
  return "";
}

std::string AskedIn(const OomEvent& oom, const ReportInput& input) {
  if (input.stacks->Frames(oom.stack_id).empty()) return "";
  const std::string site = SiteOfStack(oom.stack_id, input);
  return site.empty() || site == TopSite(oom, input) ? "" : absl::StrCat(" in ", site);
}

}  // namespace

std::string FailureText(const OomEvent& oom, const ReportInput& input) {
  std::string text = absl::StrCat(WhoAsked(oom), " asked for ", FormatBytes(oom.requested), " at ",
                                  FormatTime(input.Since(oom.time_ns)), AskedIn(oom, input));
  if (oom.device < 0 || oom.device_total == 0) return text;
  const std::string free = UnseenBytes(oom).has_value() ? absl::StrCat(FormatBytes(oom.device_free), " free of ") : "";
  absl::StrAppend(&text, "; ", DeviceLabel(oom.device), free.empty() ? " has " : " had ", free,
                  FormatBytes(oom.device_total));
  return text;
}

std::string FailureActionText(const OomEvent& oom, const ReportInput& input) {
  const std::vector<OomAction> actions = ActionsOnOom(oom, input);
  if (actions.empty()) return "gpumemshim oom explains the request";
  // What is not enough alone is no answer to the request.
  const auto enough = std::find_if(actions.begin(), actions.end(), [&](const OomAction& action) {
    return action.bytes == 0 || action.bytes >= MissingBytes(oom);
  });
  const OomAction& action = enough == actions.end() ? actions.front() : *enough;
  return absl::StrCat(action.action,
                      action.bytes == 0 || absl::StartsWith(action.action, "free ")
                          ? ""
                          : absl::StrCat(": ", FormatBytes(action.bytes)),
                      "; gpumemshim oom has the evidence");
}

}  // namespace gpumem
