// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/attribution/attributor.h"

#include <algorithm>
#include <utility>

namespace gpumem {

Attributor::Attributor(const Analysis* analysis, const StackTable* stacks, const FrameResolver& resolve,
                       const Rules* rules, AttributionRequest request)
    : analysis_(analysis),
      stacks_(stacks),
      request_(std::move(request)),
      slot_(SlotOfDevice(request_.device)),
      classifier_(stacks, rules, resolve),
      modules_(&stacks->objects(), rules),
      user_stages_(&analysis->marks, stacks) {
  result_.device = request_.device;
  result_.measure = request_.measure;
  // In the model's own order, whatever is asked: of modules with the same bytes the first one comes first.
  for (const auto& [id, module] : stacks->objects().modules()) modules_.RowOf(id);
}

LabelVisitor* Attributor::BeginFirst(const LabelReplay& replay) {
  index_pass_.emplace(request_, slot_, &replay, stacks_, &classifier_, &user_stages_);
  const bool trains = analysis_->events.by_kind.count("OPTIMIZER_STEP") != 0;
  if (!trains) index_pass_->CountIterations();
  return &*index_pass_;
}

void Attributor::FindMoments() {
  result_.moments.resize(request_.moments.size());
  for (size_t i = 0; i < result_.moments.size(); ++i) {
    Moment& moment = result_.moments[i];
    moment.asked = request_.moments[i].text;
    moment.found = index_pass_->Find(i, &moment.event_index, &moment.time_ns);
    if (!moment.found) continue;
    if (const Step* const step = index_pass_->steps().At(moment.event_index)) moment.step = step->number;
  }
}

void Attributor::EndFirst(const LabelReplay& replay) {
  FindMoments();
  if (request_.steps) steps_ = index_pass_->steps().steps();
  result_.step_source = index_pass_->steps().source();
  result_.has_tensors = index_pass_->has_tensors();
  result_.has_saved = index_pass_->has_saved();
  result_.parameters = index_pass_->Parameters();
  result_.unplaced = replay.unplaced();
}

// What is alive when the program's own code ends was kept to the end; unless somebody asks for a moment of its
// teardown.
uint64_t Attributor::LastMoment() const {
  const auto is_later = [&](const Moment& moment) { return moment.found && moment.time_ns > EndOfProgram(*analysis_); };
  const bool asks_later = std::any_of(result_.moments.begin(), result_.moments.end(), is_later);
  return asks_later ? analysis_->end_ns : EndOfProgram(*analysis_);
}

uint64_t Attributor::SecondEnd() const { return request_.lives != nullptr ? analysis_->end_ns : LastMoment(); }

// The events whose states the attribution pass is asked for.
std::vector<uint64_t> Attributor::Events() const {
  std::vector<uint64_t> events;
  for (const Moment& moment : result_.moments) {
    if (moment.found) events.push_back(moment.event_index);
  }
  for (const Step& step : steps_) {
    events.push_back(step.peak.event_index);
    events.push_back(step.end.event_index);
  }
  for (const StageRow& stage : index_pass_->stages().rows()) {
    events.push_back(stage.peak.event_index);
    events.push_back(stage.end.event_index);
  }
  std::sort(events.begin(), events.end());
  events.erase(std::unique(events.begin(), events.end()), events.end());
  return events;
}

LabelVisitor* Attributor::BeginSecond(const LabelReplay& replay) {
  std::vector<uint64_t> details;
  for (const Moment& moment : result_.moments) {
    if (moment.found) details.push_back(moment.event_index);
  }
  AttributionPass::Needs needs;
  needs.lives.uses = BlockUses::NeedsAfter(*index_pass_, replay, &classifier_, &modules_, &user_stages_);
  needs.lives.analysis = analysis_;
  needs.lives.until_ns = LastMoment();
  needs.request = &request_;
  needs.slot = slot_;
  attribution_pass_.emplace(needs, Events(), details);
  return &*attribution_pass_;
}

void Attributor::EndSecond() {
  AttributionPass& pass = *attribution_pass_;
  pass.Sum();
  for (Moment& moment : result_.moments) {
    if (moment.found) pass.Describe(moment.event_index, &moment);
    for (const AttributedUse& use : moment.uses) {
      if (use.name != 0) result_.names.try_emplace(use.name, stacks_->string(use.name));
    }
  }
  for (const Step& step : steps_)
    result_.steps.push_back({step, pass.Categories(step.peak.event_index), pass.Categories(step.end.event_index)});
  for (const StageRow& row : index_pass_->stages().rows())
    result_.stages.push_back({row, pass.Categories(row.peak.event_index), pass.Categories(row.end.event_index)});
  result_.unlisted_stages = index_pass_->stages().unlisted();
  for (ParameterRow& parameter : result_.parameters) parameter.module = modules_.OwnerOf(parameter.tensor);
  result_.module_uses = pass.ModuleUses();
  result_.module_peaks = pass.ModulePeaks();
  result_.inclusive_peaks = pass.InclusivePeaks();
  result_.inclusive_peaks.resize(modules_.size());
  result_.user_stages = user_stages_.names();
  for (uint32_t row = 0; row < modules_.size(); ++row) result_.modules.push_back(modules_.row(row));
  result_.module_peaks.resize(result_.modules.size());
}

}  // namespace gpumem
