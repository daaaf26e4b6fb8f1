// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "web/page_trace.h"

#include <algorithm>
#include <utility>

#include "answers/report/sections.h"
#include "answers/training/training.h"
#include "base/status_macros.h"
#include "ledger/load/attribute.h"
#include "ledger/load/leaks.h"
#include "ledger/load/moment.h"
#include "render/draw.h"

namespace gpumem {
namespace {

constexpr size_t kTop = 100;  // of each list of stacks
constexpr size_t kSteps = 5'000, kModules = 2'000;

}  // namespace

PageInput PageTrace::Input() const {
  const ReportInput& input = loaded->input;
  return {loaded.get(),
          pass.get(),
          {{"report", ToJson(ReportAnswer(input, {}, false, kTop))},
           {"leaks", ToJson(LeaksAnswer(input, {}, kTop))},
           {"fragmentation", ToJson(FragmentationAnswer(input, nullptr, {}, kTop))},
           {"timeline", ToJson(TimelineAnswer(input))},
           {"steps", ToJson(StepsAnswer(input, kSteps))},
           {"stages", ToJson(StagesAnswer(input, kSteps))},
           {"modules", ToJson(ModulesAnswer(input, kModules))},
           {"model", ToJson(ModelAnswer(input, loaded->stacks.objects(), kModules))}}};
}

absl::StatusOr<PageTrace> ReadPageTrace(std::unique_ptr<LoadedTrace> read, const PageLimits& limits,
                                        const std::string& rules_file, const LoadProgress& progress) {
  PageTrace trace;
  trace.loaded = std::move(read);
  LoadedTrace* const loaded = trace.loaded.get();
  const EventCounts& counts = loaded->analysis.events;
  const uint64_t events = counts.torch + counts.runtime + counts.driver;
  trace.pass = std::make_unique<PagePass>(loaded, limits);
  LoadedLives lives(loaded, trace.pass.get(), [progress, events](int replay, uint64_t done) {
    if (progress) progress(replay == 1 ? "replaying" : "following each block", done, std::max(done, events));
  });
  AttributionRequest request;
  request.moments = {ParseMoment("peak", *loaded)};
  request.steps = request.modules = request.stages = true;
  GPUMEM_ASSIGN_OR_RETURN(const auto attributor, LoadedAttributor::Make(std::move(request), rules_file, loaded));
  GPUMEM_ASSIGN_OR_RETURN(const auto finder, LoadedLeakFinder::Make("", loaded));
  GPUMEM_RETURN_IF_ERROR(RunAnalyses(*loaded, {attributor->analysis(), finder->analysis(), lives.analysis()}));
  GPUMEM_RETURN_IF_ERROR(lives.Finish());
  trace.leaks = finder->Take(loaded);
  trace.attribution = attributor->Take(loaded);
  return trace;
}

}  // namespace gpumem
