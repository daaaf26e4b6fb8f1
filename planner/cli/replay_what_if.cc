// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/cli/replay_what_if.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "attach/child.h"
#include "base/status_macros.h"
#include "planner/allocator/replayer.h"
#include "planner/cli/plan_flags.h"

namespace gpumem::plan {
namespace {

constexpr double kMostSeconds = 60;
constexpr absl::string_view kExpandable = "expandable_segments:";

// The recorded settings with expandable segments, or without.
std::string OtherSettings(const std::string& recorded) {
  std::vector<std::string> parts;
  bool was_on = false;
  for (const absl::string_view part : absl::StrSplit(recorded, ',', absl::SkipWhitespace())) {
    if (absl::StartsWith(part, kExpandable))
      was_on = absl::EqualsIgnoreCase(part.substr(kExpandable.size()), "true");
    else
      parts.emplace_back(part);
  }
  if (!was_on) parts.push_back(absl::StrCat(kExpandable, "True"));
  return absl::StrJoin(parts, ",");
}

WhatIfRun RunOf(const ReplayedRun& run, int device) { return {run.conf, run.Of(device).peak_reserved, run.fit}; }

absl::StatusOr<WhatIfAnswer> Replayed(const WhatIfQuestion& question, Console* console) {
  WhatIfAnswer answer;
  answer.device = question.device;
  GPUMEM_ASSIGN_OR_RETURN(const SimulationTools tools, FindSimulation());
  ReplayOptions options;
  options.device = question.device;
  options.timeout_s = kMostSeconds;
  if (question.failure != nullptr) options.until_failure_ns = question.failure->time_ns;
  Replayer replayer(tools, options, console);
  GPUMEM_RETURN_IF_ERROR(replayer.Load(question.trace));
  std::vector<ReplaySetting> settings = {{OtherSettings(replayer.recorded_conf())}};
  if (question.tries_all) {
    for (const std::string& conf : SettingsToTry(replayer.recorded_conf()))
      if (conf != settings[0].conf) settings.push_back({conf});
  }
  GPUMEM_ASSIGN_OR_RETURN(const ReplayAnswer replay, replayer.Run(settings));
  for (const ReplayedRun* run : {&replay.compared(), &replay.what_ifs[0]}) {
    if (!run->error.empty()) return absl::UnavailableError(run->error);
  }
  if (question.failure != nullptr && !replay.knows_room())
    return absl::UnavailableError("how much memory the GPU had for this program is not known");
  answer.torch = replay.torch;
  answer.is_exact = replay.is_exact();
  answer.doubts = replay.doubts;
  answer.recorded = RunOf(replay.compared(), question.device);
  answer.other = RunOf(replay.what_ifs[0], question.device);
  for (const ReplayedRun& run : replay.what_ifs)
    if (run.error.empty() && !run.death.has_value()) answer.tried.push_back(RunOf(run, question.device));
  std::stable_sort(answer.tried.begin(), answer.tried.end(),
                   [](const WhatIfRun& a, const WhatIfRun& b) { return a.peak_reserved < b.peak_reserved; });
  return answer;
}

}  // namespace

WhatIfAnswer ReplayWhatIf(const WhatIfQuestion& question, Console* console) {
  absl::StatusOr<WhatIfAnswer> answer = Replayed(question, console);
  if (SignalGuard::Noted() != 0) EndLike(SignalGuard::Noted());
  if (answer.ok()) return *std::move(answer);
  WhatIfAnswer none;
  none.device = question.device;
  none.why_not = std::string(answer.status().message());
  return none;
}

}  // namespace gpumem::plan
