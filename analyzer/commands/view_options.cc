// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "commands/view_options.h"

#include <CLI/CLI.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/format.h"
#include "commands/command.h"
#include "views/aggregate.h"

namespace gpumem {
namespace {

constexpr size_t kStacksPerProgress = 64;

bool ParseSize(absl::string_view flag, const std::string& text, uint64_t* bytes, Console* console) {
  if (text.empty()) return true;
  const std::optional<uint64_t> parsed = ParseBytes(text);
  if (parsed) {
    *bytes = *parsed;
    return true;
  }
  console->Complain(absl::StrCat(text, " is no size, in ", flag, ". Give bytes, or 64K, 1.5M, 2GiB."));
  return false;
}

bool ParseAge(absl::string_view flag, const std::string& text, uint64_t* ns, Console* console) {
  if (text.empty()) return true;
  const std::optional<uint64_t> parsed = ParseTime(text);
  if (parsed) {
    *ns = *parsed;
    return true;
  }
  console->Complain(absl::StrCat(text, " is no time, in ", flag, ". Give seconds, or 1.5s, 200ms, 2min."));
  return false;
}

bool CompilePattern(absl::string_view flag, const std::string& text, Pattern* pattern, Console* console) {
  absl::StatusOr<Pattern> compiled = Pattern::Compile(text);
  if (compiled.ok()) {
    *pattern = *std::move(compiled);
    return true;
  }
  console->Complain(absl::StrCat(compiled.status().message(), ", in ", flag, ". It is written as for grep -E."));
  return false;
}

ViewMeasure ParseMeasure(const std::string& name) {
  for (const ViewMeasure measure :
       {ViewMeasure::kAllocated, ViewMeasure::kReserved, ViewMeasure::kTotal, ViewMeasure::kHeld, ViewMeasure::kPinned,
        ViewMeasure::kManaged, ViewMeasure::kImported}) {
    if (name == ViewMeasureName(measure)) return measure;
  }
  return ViewMeasure::kDefault;
}

CLI::Validator OneOf(const std::vector<std::string>& names) {
  return CLI::Validator(CLI::IsMember(names)).description("");
}

}  // namespace

void ViewOptions::AddSelectionFlags(CLI::App* app) {
  trace.AddFlags(app);
  CLI::Option* const modes[] = {
      app->add_flag("--peak", peak, "what was alive when memory was highest"),
      app->add_flag("--leaks", leaks, "what is not freed at the end"),
      app->add_flag("--total", total, "everything that was allocated, freed or not"),
      app->add_flag("--temporary,--temporary-allocations", temporary, "what was freed after at most N others"),
  };
  for (size_t i = 0; i < std::size(modes); ++i) {
    for (size_t k = 0; k < i; ++k) modes[i]->excludes(modes[k]);
  }
  threshold_option_ = app->add_option("--temporary-threshold,--temporary-allocation-threshold", temporary_threshold,
                                      "that N, 1 unless given; means --temporary")
                          ->type_name("N");
  for (size_t i = 0; i < 3; ++i) threshold_option_->excludes(modes[i]);
  app->add_option("--measure", measure, "allocated, reserved, total or held; or pinned, managed, imported")
      ->type_name("WHAT")
      ->check(OneOf({"allocated", "reserved", "total", "held", "pinned", "managed", "imported"}));
  app->add_option("--min-size", min_size, "only allocations of at least so many bytes (64K, 1.5M)")->type_name("SIZE");
  app->add_option("--max-size", max_size, "only allocations of at most so many bytes")->type_name("SIZE");
  app->add_option("--min-age", min_age, "only what was held at least so long (200ms)")->type_name("TIME");
  app->add_option("--max-age", max_age, "only what was held at most so long")->type_name("TIME");
  app->add_option("--function", function, "only stacks with such a function")->type_name("REGEX");
  app->add_option("--file", file, "only stacks through such a source file")->type_name("REGEX");
  app->add_option("--module", module, "only stacks through such a Python module or library")->type_name("REGEX");
  app->add_option("--thread", thread, "only threads with such a name or number")->type_name("REGEX");
}

void ViewOptions::AddFrameFlags(CLI::App* app) {
  app->add_option("--native", native, "native frames: none, trimmed or full")
      ->type_name("WHICH")
      ->check(OneOf({"none", "trimmed", "full"}));
  app->add_flag("--no-imports", no_imports, "leave out the frames of Python's import machinery");
  app->add_option("--ignore", ignore, "leave out such frames (more than once)")
      ->type_name("REGEX")
      ->allow_extra_args(false);
}

void ViewOptions::AddOrderFlags(CLI::App* app) {
  app->add_option("--depth", depth, "at most so many frames from the root on; 0 = all")->type_name("N");
  app->add_flag("--invert", invert, "from the allocating frame outwards");
  app->add_option("--split", split, "apart by thread or device")->type_name("WHAT")->check(OneOf({"thread", "device"}));
}

void ViewOptions::AddGroupFlag(CLI::App* app) {
  app->add_option("--by", by, "under frames of what it belongs to: module (of the model), stage or category")
      ->type_name("WHAT")
      ->check(OneOf({"module", "stage", "category"}));
}

void ViewOptions::AddFlags(CLI::App* app) {
  AddSelectionFlags(app);
  AddFrameFlags(app);
  AddOrderFlags(app);
}

bool MakeSelection(const ViewOptions& options, StackSelection* selection, Console* console) {
  const bool has_threshold = options.threshold_option_ != nullptr && options.threshold_option_->count() > 0;
  selection->mode = options.usual_mode;
  if (options.peak) selection->mode = ViewMode::kPeak;
  if (options.leaks) selection->mode = ViewMode::kLeaks;
  if (options.total) selection->mode = ViewMode::kTotal;
  if (options.temporary || has_threshold) selection->mode = ViewMode::kTemporary;
  selection->temporary_threshold = options.temporary_threshold;
  selection->measure = ParseMeasure(options.measure);
  if (selection->mode == ViewMode::kPeak && selection->measure == ViewMeasure::kHeld) {
    console->Complain(
        "--measure held has no peak of its own. Give allocated, reserved or total, or --leaks or --total.");
    return false;
  }
  if (IsOfProcess(selection->measure) && options.trace.device >= 0) {
    console->Complain(
        absl::StrCat("--measure ", options.measure, " is of the whole process, no GPU's. Leave out --device."));
    return false;
  }
  return ParseSize("--min-size", options.min_size, &selection->min_bytes, console) &&
         ParseSize("--max-size", options.max_size, &selection->max_bytes, console) &&
         ParseAge("--min-age", options.min_age, &selection->min_age_ns, console) &&
         ParseAge("--max-age", options.max_age, &selection->max_age_ns, console);
}

bool MakeFrameRules(const ViewOptions& options, FrameRules* rules, Console* console) {
  rules->native = options.native == "none"   ? NativeFrames::kNone
                  : options.native == "full" ? NativeFrames::kFull
                                             : NativeFrames::kTelling;
  rules->imports = !options.no_imports;
  rules->invert = options.invert;
  rules->depth = options.depth;
  rules->split_devices = options.split == "device";
  rules->split_threads = options.split == "thread";
  for (const std::string& text : options.ignore) {
    Pattern pattern;
    if (!CompilePattern("--ignore", text, &pattern, console)) return false;
    if (pattern.is_set()) rules->ignore.push_back(std::move(pattern));
  }
  return true;
}

bool MakeStackFilters(const ViewOptions& options, StackFilters* filters, Console* console) {
  return CompilePattern("--function", options.function, &filters->function, console) &&
         CompilePattern("--file", options.file, &filters->file, console) &&
         CompilePattern("--module", options.module, &filters->module, console) &&
         CompilePattern("--thread", options.thread, &filters->thread, console);
}

std::unique_ptr<LoadedView> LoadView(const ViewOptions& options, const ViewNeeds& needs,
                                     const std::vector<std::string>& arguments, Console* console) {
  auto view = std::make_unique<LoadedView>();
  view->trace = std::make_unique<LoadedTrace>();
  view->trace->exit_code = kExitUsage;
  AnalyzeOptions asked;
  FrameRules rules;
  StackFilters filters;
  if (!MakeAnalyzeOptions(options.trace, &asked, console) || !MakeSelection(options, &view->selection, console) ||
      !MakeFrameRules(options, &rules, console) || !MakeStackFilters(options, &filters, console))
    return view;
  view->selection.by_size = needs.by_size;
  view->selection.by_user_stage = options.by == "stage" || needs.by_labels == "stage";
  view->trace = LoadTrace(options.trace, arguments, console, [&](const OpenTrace& trace) {
    const DeviceAnalysis* const largest = LargestDevice(*trace.analysis);
    if (view->selection.mode == ViewMode::kPeak && !needs.all_devices && !rules.split_devices && largest != nullptr)
      view->selection.device = largest->device;
    view->aggregated = AggregateStacks(trace, asked, view->selection, [&](uint64_t done, uint64_t all) {
      console->Progress("aggregating stacks", done, all);
    });
  });
  if (!view->trace->readable()) return view;
  view->source = std::make_unique<SymbolizedFrames>(&view->trace->stacks, view->trace->symbolizer.get());
  if (const std::string by = options.by.empty() ? needs.by_labels : options.by; !by.empty()) {
    view->groups = std::make_unique<ViewGroups>(by, view->trace.get());
    if (!view->groups->Divide(&view->aggregated, console)) {
      view->trace->exit_code = kExitUsage;
      return view;
    }
    if (!options.by.empty())
      rules.group = [groups = view->groups.get()](const AggregatedStack& stack) { return groups->Labels(stack); };
  }
  view->frames = std::make_unique<FrameTable>(view->source.get(), std::move(rules),
                                              view->trace->analysis.process.working_directory);
  FilterStacks(filters, view->frames.get(), &view->aggregated);
  const std::vector<AggregatedStack>& stacks = view->aggregated.stacks;
  for (size_t i = 0; i < stacks.size(); ++i) {
    view->frames->LookUp(stacks[i]);
    if (i % kStacksPerProgress == 0) console->Progress("looking up symbols", i, stacks.size());
  }
  console->ProgressDone();
  return view;
}

}  // namespace gpumem
