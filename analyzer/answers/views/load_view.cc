// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/views/load_view.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "ledger/saved/saved_answers.h"
#include "ledger/stacks/aggregate.h"

namespace gpumem {
namespace {

constexpr size_t kStacksPerProgress = 64;

void LookUpFrames(const LoadProgress& progress, LoadedView* view) {
  const std::vector<AggregatedStack>& stacks = view->aggregated.stacks;
  for (size_t i = 0; i < stacks.size(); ++i) {
    view->frames->LookUp(stacks[i]);
    if (progress && i % kStacksPerProgress == 0) progress("looking up symbols", i, stacks.size());
  }
}

void ChooseDevice(const ViewRequest& request, const Analysis& analysis, StackSelection* selection) {
  const bool one_device = !request.all_devices && !request.rules.split_devices;
  const DeviceAnalysis* const largest = LargestDevice(analysis);
  if (selection->mode == ViewMode::kPeak && one_device && largest != nullptr) selection->device = largest->device;
}

bool AggregateAllKept(const std::vector<StackSelection>& selections, AggregatedTrace* aggregated) {
  LoadedTrace* const trace = aggregated->trace.get();
  const SavedAnswers* const answers = AnswersOf(trace);
  if (answers == nullptr) return false;
  for (const StackSelection& selection : selections) {
    auto kept = AggregateKept(answers->lives(), trace->analysis, trace->stacks, selection);
    if (!kept.has_value()) return false;
    aggregated->views.push_back(*std::move(kept));
  }
  return true;
}

}  // namespace

absl::StatusOr<AggregatedTrace> LoadAggregated(LoadRequest request, const ChooseStacks& choose) {
  AggregatedTrace aggregated;
  bool has_looked = false;
  const std::vector<StackSelection> known = choose(Analysis());
  request.spares_look = std::all_of(known.begin(), known.end(), IsInLives);
  request.look = [&](const OpenTrace& trace) {
    has_looked = true;
    aggregated.views.clear();
    for (const StackSelection& selection : choose(*trace.analysis)) {
      const auto progress = [&](uint64_t done, uint64_t all) {
        if (request.progress) request.progress("aggregating stacks", done, all);
      };
      aggregated.views.push_back(AggregateStacks(trace, request.analyze, selection, progress));
    }
  };
  GPUMEM_ASSIGN_OR_RETURN(aggregated.trace, LoadTrace(request));
  if (has_looked || AggregateAllKept(choose(aggregated.trace->analysis), &aggregated)) return aggregated;
  StackTable stacks;  // as those that are loaded
  const absl::StatusOr<Analysis> again =
      Analyze(aggregated.trace->analysis.path, request.analyze, &stacks, nullptr, request.look);
  if (!again.ok()) return AsReadError(again.status());
  return aggregated;
}

absl::StatusOr<std::unique_ptr<LoadedView>> LoadView(ViewRequest request) {
  auto view = std::make_unique<LoadedView>();
  view->selection = std::move(request.selection);
  view->selection.by_user_stage = request.by == "stage" || request.by_labels == "stage";
  GPUMEM_ASSIGN_OR_RETURN(AggregatedTrace aggregated,
                          LoadAggregated(request.load, [&](const Analysis& analysis) -> std::vector<StackSelection> {
                            ChooseDevice(request, analysis, &view->selection);
                            return {view->selection};
                          }));
  view->trace = std::move(aggregated.trace);
  view->aggregated = std::move(aggregated.views.front());
  view->source = std::make_unique<SymbolizedFrames>(&view->trace->stacks, view->trace->symbolizer.get());
  if (const std::string& by = request.by.empty() ? request.by_labels : request.by; !by.empty()) {
    view->groups = std::make_unique<ViewGroups>(by, view->trace.get());
    GPUMEM_RETURN_IF_ERROR(view->groups->Divide(&view->aggregated));
    if (!request.by.empty()) {
      request.rules.group = [groups = view->groups.get()](const AggregatedStack& stack) {
        return groups->Labels(stack);
      };
    }
  }
  view->frames = std::make_unique<FrameTable>(view->source.get(), std::move(request.rules),
                                              view->trace->analysis.process.working_directory);
  FilterStacks(request.filters, view->frames.get(), &view->aggregated);
  LookUpFrames(request.load.progress, view.get());
  return view;
}

}  // namespace gpumem
