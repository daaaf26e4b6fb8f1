// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "attribution/attribution.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "attribution/attribution_pass.h"
#include "attribution/index_pass.h"
#include "attribution/user_stages.h"
#include "base/status_macros.h"
#include "trace/reader.h"

namespace gpumem {
namespace {

void FindMoments(const IndexPass& index_pass, const AttributionRequest& request, std::vector<Moment>* moments) {
  moments->resize(request.moments.size());
  for (size_t i = 0; i < moments->size(); ++i) {
    Moment& moment = (*moments)[i];
    moment.asked = request.moments[i].text;
    moment.found = index_pass.Find(i, &moment.event_index, &moment.time_ns);
    if (!moment.found) continue;
    if (const Step* const step = index_pass.steps().At(moment.event_index)) moment.step = step->number;
  }
}

// The events whose states the attribution pass is asked for.
std::vector<uint64_t> EventsOf(const std::vector<Moment>& moments, const std::vector<Step>& steps,
                               const std::vector<StageRow>& stages) {
  std::vector<uint64_t> events;
  for (const Moment& moment : moments) {
    if (moment.found) events.push_back(moment.event_index);
  }
  for (const Step& step : steps) {
    events.push_back(step.peak.event_index);
    events.push_back(step.end.event_index);
  }
  for (const StageRow& stage : stages) {
    events.push_back(stage.peak.event_index);
    events.push_back(stage.end.event_index);
  }
  std::sort(events.begin(), events.end());
  events.erase(std::unique(events.begin(), events.end()), events.end());
  return events;
}

// Behind the header of the section that was analyzed.
absl::StatusOr<TraceReader> OpenSection(const std::string& path) {
  GPUMEM_ASSIGN_OR_RETURN(TraceReader reader, TraceReader::Open(path));
  if (reader.Next() != ItemType::kHeader) return absl::InvalidArgumentError(path + ": " + reader.damage());
  return reader;
}

// Where the second replay ends: what is alive when the program's own code ends was kept to the end, whatever its
// teardown frees; unless somebody asks for a moment of that teardown.
uint64_t EndOf(const Analysis& analysis, const std::vector<Moment>& moments) {
  const auto is_later = [&](const Moment& moment) { return moment.found && moment.time_ns > analysis.program_end_ns; };
  if (analysis.program_end_ns == 0 || std::any_of(moments.begin(), moments.end(), is_later)) return analysis.end_ns;
  return analysis.program_end_ns;
}

}  // namespace

uint64_t Moment::Total() const { return std::accumulate(categories.begin(), categories.end(), uint64_t{0}); }

absl::StatusOr<Attribution> Attribute(const Analysis& analysis, const StackTable& stacks, const FrameResolver& resolve,
                                      const Rules& rules, const AttributionRequest& request) {
  const uint32_t slot = SlotOfDevice(request.device);
  StackClassifier classifier(&stacks, &rules, resolve);
  ModuleTable modules(&stacks.objects(), &rules);
  Attribution result;
  result.device = request.device;
  result.measure = request.measure;

  GPUMEM_ASSIGN_OR_RETURN(TraceReader first, OpenSection(analysis.path));
  LabelReplay index_replay(&first, &stacks.objects(), analysis.end_ns);
  UserStages user_stages(&analysis.marks, &stacks);
  IndexPass index_pass(request, slot, &index_replay, &stacks, &classifier, &user_stages);
  const bool trains = analysis.events.by_kind.count("OPTIMIZER_STEP") != 0;
  if (!trains) index_pass.CountIterations();
  index_replay.Run(&index_pass);
  FindMoments(index_pass, request, &result.moments);
  const std::vector<Step> steps = request.steps ? index_pass.steps().steps() : std::vector<Step>();
  result.step_source = index_pass.steps().source();
  result.has_tensors = index_pass.has_tensors();
  result.has_saved = index_pass.has_saved();
  result.parameters = index_pass.Parameters();
  result.unplaced = index_replay.unplaced();

  GPUMEM_ASSIGN_OR_RETURN(TraceReader second, OpenSection(analysis.path));
  LabelReplay replay(&second, &stacks.objects(), EndOf(analysis, result.moments));
  std::vector<uint64_t> details;
  for (const Moment& moment : result.moments) {
    if (moment.found) details.push_back(moment.event_index);
  }
  AttributionPass attribution_pass({&request, slot, &replay, &index_pass.places(), result.has_tensors, &classifier,
                                    &modules, &user_stages, index_pass.LastLoop(), index_pass.FirstStackOfCalls()},
                                   EventsOf(result.moments, steps, index_pass.stages().rows()), details);
  replay.Run(&attribution_pass);
  attribution_pass.Sum();
  for (Moment& moment : result.moments) {
    if (moment.found) attribution_pass.Describe(moment.event_index, &moment);
    for (const AttributedUse& use : moment.uses) {
      if (use.name != 0) result.names.try_emplace(use.name, stacks.string(use.name));
    }
  }
  for (const Step& step : steps) {
    result.steps.push_back(
        {step, attribution_pass.Categories(step.peak.event_index), attribution_pass.Categories(step.end.event_index)});
  }
  for (const StageRow& row : index_pass.stages().rows()) {
    result.stages.push_back(
        {row, attribution_pass.Categories(row.peak.event_index), attribution_pass.Categories(row.end.event_index)});
  }
  result.unlisted_stages = index_pass.stages().unlisted();
  for (ParameterRow& parameter : result.parameters) parameter.module = modules.OwnerOf(parameter.tensor);
  result.module_uses = attribution_pass.ModuleUses();
  result.module_peaks = attribution_pass.ModulePeaks();
  result.inclusive_peaks = attribution_pass.InclusivePeaks();
  result.inclusive_peaks.resize(modules.size());
  result.user_stages = user_stages.names();
  for (uint32_t row = 0; row < modules.size(); ++row) result.modules.push_back(modules.row(row));
  result.module_peaks.resize(result.modules.size());
  return result;
}

}  // namespace gpumem
