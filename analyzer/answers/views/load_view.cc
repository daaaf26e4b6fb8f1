// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/views/load_view.h"

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

// From the lives that are kept of a large trace, where something has asked for them before; else from its events.
absl::Status Aggregate(ViewRequest* request, LoadedView* view) {
  bool has_looked = false;
  request->load.spares_look = IsInLives(view->selection);
  request->load.look = [&](const OpenTrace& trace) {
    has_looked = true;
    ChooseDevice(*request, *trace.analysis, &view->selection);
    view->aggregated = AggregateStacks(trace, request->load.analyze, view->selection, [&](uint64_t done, uint64_t all) {
      if (request->load.progress) request->load.progress("aggregating stacks", done, all);
    });
  };
  GPUMEM_ASSIGN_OR_RETURN(view->trace, LoadTrace(request->load));
  if (has_looked) return absl::OkStatus();
  const Analysis& analysis = view->trace->analysis;
  ChooseDevice(*request, analysis, &view->selection);
  if (const SavedAnswers* const answers = AnswersOf(view->trace.get())) {
    auto kept = AggregateKept(answers->lives(), analysis, view->trace->stacks, view->selection);
    if (kept.has_value()) {
      view->aggregated = *std::move(kept);
      return absl::OkStatus();
    }
  }
  request->load.spares_look = false;
  GPUMEM_ASSIGN_OR_RETURN(view->trace, LoadTrace(request->load));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<LoadedView>> LoadView(ViewRequest request) {
  auto view = std::make_unique<LoadedView>();
  view->selection = std::move(request.selection);
  view->selection.by_user_stage = request.by == "stage" || request.by_labels == "stage";
  GPUMEM_RETURN_IF_ERROR(Aggregate(&request, view.get()));
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
