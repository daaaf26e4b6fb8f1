// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What the views by stack (flame, tree, table, stacks, sizes) have in common: their flags, and from the flags and a
// trace to aggregated stacks with their frames.
//
//   ViewOptions options;
//   options.AddFlags(&app);
//   ...
//   const std::unique_ptr<LoadedView> view = LoadView(options, {}, arguments, console);
//   if (!view->readable()) return view->exit_code();
//   const StackTree tree(view->aggregated, view->frames.get());

#ifndef GPUMEM_ANALYZER_COMMANDS_VIEW_OPTIONS_H_
#define GPUMEM_ANALYZER_COMMANDS_VIEW_OPTIONS_H_

#include <CLI/App.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/text_sink.h"
#include "commands/console.h"
#include "commands/trace_options.h"
#include "commands/view_groups.h"
#include "views/aggregated_stacks.h"
#include "views/frame_source.h"
#include "views/frame_table.h"
#include "views/selection.h"
#include "views/view_input.h"

namespace gpumem {

struct ViewOptions {
  TraceOptions trace;
  bool peak = false, leaks = false, total = false, temporary = false;
  ViewMode usual_mode = ViewMode::kPeak;  // without a flag for another; a command may set it
  uint64_t temporary_threshold = 1;
  std::string measure;
  std::string min_size, max_size, min_age, max_age;
  std::string function, file, module, thread;
  std::vector<std::string> ignore;
  std::string native;  // "" = trimmed
  std::string split;
  std::string by;  // module, stage, category; "" = none
  bool no_imports = false, invert = false;
  size_t depth = 0;

  // All of them; TraceOptions' too.
  void AddFlags(CLI::App* app);
  // Those that choose what is aggregated; which frames there are; and, for views that show calls in order, how.
  void AddSelectionFlags(CLI::App* app);
  void AddFrameFlags(CLI::App* app);
  void AddOrderFlags(CLI::App* app);
  void AddGroupFlag(CLI::App* app);

 private:
  CLI::Option* threshold_option_ = nullptr;
  friend bool MakeSelection(const ViewOptions&, StackSelection*, Console*);
};

// The flags as views/ wants them. Complains and returns false where they make no sense.
bool MakeSelection(const ViewOptions& options, StackSelection* selection, Console* console);
bool MakeFrameRules(const ViewOptions& options, FrameRules* rules, Console* console);
bool MakeStackFilters(const ViewOptions& options, StackFilters* filters, Console* console);

// How a view departs from the usual.
struct ViewNeeds {
  bool by_size = false;      // StackSelection::by_size
  std::string by_labels;     // LoadedView::groups without frames for them: module, component, stage, category, operator
  bool all_devices = false;  // the peak of every GPU, each at its own time; else of the one with the largest
};

struct LoadedView {
  std::unique_ptr<LoadedTrace> trace;
  AggregatedStacks aggregated;  // filtered by name
  std::unique_ptr<FrameSource> source;
  std::unique_ptr<ViewGroups> groups;
  std::unique_ptr<FrameTable> frames;
  StackSelection selection;

  // Of this; valid as long as it.
  ViewInput input() const { return {trace->input, &aggregated, frames.get(), &selection}; }
  bool readable() const { return frames != nullptr; }
  int exit_code() const { return trace->exit_code; }
};

// Complains and sets the exit code where the trace cannot be read or the flags make no sense. Never null.
std::unique_ptr<LoadedView> LoadView(const ViewOptions& options, const ViewNeeds& needs,
                                     const std::vector<std::string>& arguments, Console* console);

// Console::Print, for what writes its answer piece by piece.
inline TextSink SinkOf(Console* console) {
  return [console](absl::string_view text) { console->Print(text); };
}

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_COMMANDS_VIEW_OPTIONS_H_
