// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// LoadView: from a trace file to aggregated stacks with the names of their frames: what every view by stack (tree,
// table, stacks, sizes) is drawn from.
//
//   ViewRequest request;
//   request.load.place = "run.gmtrace";
//   request.selection.mode = ViewMode::kLeaks;
//   GPUMEM_ASSIGN_OR_RETURN(const std::unique_ptr<LoadedView> view, LoadView(std::move(request)));
//   const StackTree tree(view->aggregated, view->frames.get());
//
// Not thread-safe. Errors: LoadTrace's.

#ifndef GPUMEM_ANALYZER_ANSWERS_VIEWS_LOAD_VIEW_H_
#define GPUMEM_ANALYZER_ANSWERS_VIEWS_LOAD_VIEW_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "answers/views/frame_source.h"
#include "answers/views/frame_table.h"
#include "answers/views/view_groups.h"
#include "answers/views/view_input.h"
#include "ledger/load/load_trace.h"
#include "ledger/stacks/aggregated_stacks.h"
#include "ledger/stacks/selection.h"

namespace gpumem {

// A trace with some views by stack: from the lives that are kept of a large trace, where something has asked for them
// before and they tell all of the views; else from its events.
struct AggregatedTrace {
  std::unique_ptr<LoadedTrace> trace;
  std::vector<AggregatedStacks> views;
};
// Which views. Asked first with an empty analysis; mode and measure must be the same each time.
using ChooseStacks = std::function<std::vector<StackSelection>(const Analysis& analysis)>;
absl::StatusOr<AggregatedTrace> LoadAggregated(LoadRequest request, const ChooseStacks& choose);

struct ViewRequest {
  LoadRequest load;
  StackSelection selection;
  FrameRules rules;
  StackFilters filters;
  std::string by;            // module, stage, category: at the root of each stack; "" = none
  std::string by_labels;     // the same without frames for them, also component and operator; asked of `groups`
  bool all_devices = false;  // the peak of every GPU, each at its own time; else of the one with the largest
};

struct LoadedView {
  std::unique_ptr<LoadedTrace> trace;
  AggregatedStacks aggregated;  // filtered by name
  std::unique_ptr<FrameSource> source;
  std::unique_ptr<ViewGroups> groups;  // null without `by` and `by_labels`
  std::unique_ptr<FrameTable> frames;
  StackSelection selection;

  // Of this; valid as long as it.
  ViewInput input() const { return {trace->input, &aggregated, frames.get(), &selection}; }
};

// Never null.
absl::StatusOr<std::unique_ptr<LoadedView>> LoadView(ViewRequest request);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_VIEWS_LOAD_VIEW_H_
