// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What the views by stack (flame, tree, table, sizes, export) have in common: their flags, and from the flags and a
// trace to aggregated stacks with their frames.
//
//   ViewOptions options;
//   options.AddFlags(flags);
//   ...
//   GPUMEM_ASSIGN_OR_RETURN(const auto view, LoadView(options, {}, arguments, console));
//   const StackTree tree(view->aggregated, view->frames.get());

#ifndef GPUMEM_ANALYZER_CLI_LOOK_VIEW_OPTIONS_H_
#define GPUMEM_ANALYZER_CLI_LOOK_VIEW_OPTIONS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "answers/views/frame_table.h"
#include "answers/views/load_view.h"
#include "base/console.h"
#include "base/text_sink.h"
#include "cli/trace_options.h"
#include "ledger/stacks/selection.h"
#include "render/document.h"
#include "render/draw.h"

namespace gpumem {

struct ViewOptions {
  TraceOptions trace;
  bool peak = false, leaks = false, total = false, temporary = false, average = false;
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
  void AddFlags(Flags* flags);
  // TraceOptions' and those that choose what is aggregated, or these alone; which frames there are; and, for views that
  // show calls in order, how.
  void AddSelectionFlags(Flags* flags);
  void AddChoiceFlags(Flags* flags);
  void AddFrameFlags(Flags* flags);
  void AddOrderFlags(Flags* flags);
  void AddGroupFlag(Flags* flags);

  // The flags as views/ wants them. InvalidArgument where they make no sense.
  absl::StatusOr<StackSelection> Selection() const;
  absl::StatusOr<FrameRules> Rules() const;
  absl::StatusOr<StackFilters> Filters() const;

 private:
  Flag threshold_option_;
};

// How a view departs from the usual.
struct ViewNeeds {
  bool by_size = false;      // StackSelection::by_size
  std::string by_labels;     // ViewRequest::by_labels
  bool all_devices = false;  // the peak of every GPU, each at its own time; else of the one with the largest
};

// loading/'s LoadView with the flags of a command, and ReportLoading.
absl::StatusOr<std::unique_ptr<LoadedView>> LoadView(const ViewOptions& options, const ViewNeeds& needs,
                                                     const std::vector<std::string>& arguments, Console* console);

// Console::Print, for what writes its answer piece by piece.
inline TextSink SinkOf(Console* console) {
  return [console](absl::string_view text) { console->Print(text); };
}

inline void PrintAnswer(const Document& answer, bool as_json, Console* console) {
  if (as_json) return WriteJson(answer, SinkOf(console));
  console->Print(ToText(answer, console->out_style()));
}

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_CLI_LOOK_VIEW_OPTIONS_H_
