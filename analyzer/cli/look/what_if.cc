// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "cli/look/what_if.h"

#include <utility>

#include "answers/oom/oom_story.h"
#include "cli/trace_options.h"

namespace gpumem {
namespace {

WhatIfAsker& Asker() {
  static auto* const kAsker = new WhatIfAsker;
  return *kAsker;
}

}  // namespace

const OomEvent* ReplayableFailure(const Analysis& analysis) {
  const OomEvent* const explained = OomToExplain(analysis.ooms);
  const bool is_replayable = explained != nullptr && explained->final && explained->described &&
                             explained->layer == kTorchLayer && explained->fit_expandable.has_value();
  return is_replayable ? explained : nullptr;
}

void TakeFit(const OomEvent& failure, WhatIfAnswer* answer, Analysis* analysis) {
  if (answer->is_replayed() && !answer->other.fit.has_value())
    answer->why_not = "with expandable segments it does not come as far as with the recorded settings";
  if (answer->knows_fit())
    analysis->ooms[static_cast<size_t>(&failure - analysis->ooms.data())].fit_expandable = answer->other.fit;
}

void SetWhatIfAsker(WhatIfAsker asker) { Asker() = std::move(asker); }

std::optional<WhatIfAnswer> WhatIfFlag::Ask(const std::vector<std::string>& arguments, WhatIfQuestion question,
                                            Console* console) const {
  if (skips_ || Asker() == nullptr) return std::nullopt;
  TraceOptions whole;
  whole.shows_stacks = false;
  absl::StatusOr<LoadRequest> request = whole.Request(arguments, console);
  if (!request.ok()) return std::nullopt;
  question.trace = *std::move(request);
  WhatIfAnswer answer = Asker()(question, console);
  console->ProgressDone();
  return answer;
}

}  // namespace gpumem
