// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "cli/look/view_options.h"

#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/format.h"
#include "base/status_macros.h"

namespace gpumem {
namespace {

absl::Status ParseSize(absl::string_view flag, const std::string& text, uint64_t* bytes) {
  if (text.empty()) return absl::OkStatus();
  const std::optional<uint64_t> parsed = ParseBytes(text);
  if (!parsed)
    return absl::InvalidArgumentError(
        absl::StrCat(text, " is not a size, in ", flag, ". Give bytes, or 64K, 1.5M, 2GiB."));
  *bytes = *parsed;
  return absl::OkStatus();
}

absl::Status ParseAge(absl::string_view flag, const std::string& text, uint64_t* ns) {
  if (text.empty()) return absl::OkStatus();
  const std::optional<uint64_t> parsed = ParseTime(text);
  if (!parsed) {
    return absl::InvalidArgumentError(
        absl::StrCat("invalid time \"", text, "\" for ", flag, ". Give seconds, or 1.5s, 200ms, 2min."));
  }
  *ns = *parsed;
  return absl::OkStatus();
}

absl::StatusOr<Pattern> CompilePattern(absl::string_view flag, const std::string& text) {
  absl::StatusOr<Pattern> compiled = Pattern::Compile(text);
  if (compiled.ok()) return compiled;
  return absl::InvalidArgumentError(
      absl::StrCat(compiled.status().message(), ", in ", flag, ". It is written as for grep -E."));
}

ViewMeasure ParseMeasure(const std::string& name) {
  for (const ViewMeasure measure :
       {ViewMeasure::kAllocated, ViewMeasure::kReserved, ViewMeasure::kTotal, ViewMeasure::kHeld, ViewMeasure::kPinned,
        ViewMeasure::kManaged, ViewMeasure::kImported}) {
    if (name == ViewMeasureName(measure)) return measure;
  }
  return ViewMeasure::kDefault;
}

}  // namespace

void ViewOptions::AddSelectionFlags(Flags* flags) {
  trace.AddFlags(flags);
  AddChoiceFlags(flags);
}

void ViewOptions::AddChoiceFlags(Flags* flags) {
  const Flag modes[] = {
      flags->Add("--peak", &peak, "what was alive when memory was highest"),
      flags->Add("--leaks", &leaks, "what is not freed at the end"),
      flags->Add("--total", &total, "everything that was allocated, freed or not"),
      flags->Add("--temporary,--temporary-allocations", &temporary, "what was freed after at most N others"),
      flags->Add("--average", &average, "what was held on average: bytes x lifetime, by the length of the time"),
  };
  for (size_t i = 0; i < std::size(modes); ++i) {
    for (size_t k = 0; k < i; ++k) modes[i].Excludes(modes[k]);
  }
  threshold_option_ = flags
                          ->Add("--temporary-threshold,--temporary-allocation-threshold", &temporary_threshold,
                                "that N, 1 unless given; means --temporary")
                          .Value("N");
  for (const size_t i : {0, 1, 2, 4}) threshold_option_.Excludes(modes[i]);
  flags->Add("--measure", &measure, "allocated, reserved, total or held; or pinned, managed, imported")
      .Value("WHAT")
      .OneOf({"allocated", "reserved", "total", "held", "pinned", "managed", "imported"});
  flags->Add("--min-size", &min_size, "only allocations of at least so many bytes (64K, 1.5M)").Value("SIZE");
  flags->Add("--max-size", &max_size, "only allocations of at most so many bytes").Value("SIZE");
  flags->Add("--min-age", &min_age, "only what was held at least so long (200ms)").Value("TIME");
  flags->Add("--max-age", &max_age, "only what was held at most so long").Value("TIME");
  flags->Add("--function", &function, "only stacks with such a function").Value("REGEX");
  flags->Add("--file", &file, "only stacks through such a source file").Value("REGEX");
  flags->Add("--module", &module, "only stacks through such a Python module or library").Value("REGEX");
  flags->Add("--thread", &thread, "only threads with such a name or number").Value("REGEX");
}

void ViewOptions::AddFrameFlags(Flags* flags) {
  flags->Add("--native", &native, "native frames: none, trimmed or full")
      .Value("WHICH")
      .OneOf({"none", "trimmed", "full"});
  flags->Add("--no-imports", &no_imports, "leave out the frames of Python's import machinery");
  flags->Add("--ignore", &ignore, "leave out such frames (more than once)").Value("REGEX").Repeats();
}

void ViewOptions::AddOrderFlags(Flags* flags) {
  flags->Add("--depth", &depth, "at most so many frames from the root on; 0 = all").Value("N");
  flags->Add("--invert", &invert, "from the allocating frame outwards");
  flags->Add("--split", &split, "apart by thread or device").Value("WHAT").OneOf({"thread", "device"});
}

void ViewOptions::AddGroupFlag(Flags* flags) {
  flags->Add("--by", &by, "under frames of what it belongs to: module (of the model), stage or category")
      .Value("WHAT")
      .OneOf({"module", "stage", "category"});
}

void ViewOptions::AddFlags(Flags* flags) {
  AddSelectionFlags(flags);
  AddFrameFlags(flags);
  AddOrderFlags(flags);
}

absl::StatusOr<StackSelection> ViewOptions::Selection() const {
  StackSelection selection;
  const bool has_threshold = threshold_option_.given();
  selection.mode = usual_mode;
  if (peak) selection.mode = ViewMode::kPeak;
  if (leaks) selection.mode = ViewMode::kLeaks;
  if (total) selection.mode = ViewMode::kTotal;
  if (temporary || has_threshold) selection.mode = ViewMode::kTemporary;
  if (average) selection.mode = ViewMode::kAverage;
  selection.temporary_threshold = temporary_threshold;
  selection.measure = ParseMeasure(measure);
  if (selection.mode == ViewMode::kPeak && selection.measure == ViewMeasure::kHeld) {
    return absl::InvalidArgumentError(
        "--measure held has no peak of its own. Give allocated, reserved or total, or --leaks or --total.");
  }
  if (IsOfProcess(selection.measure) && trace.device >= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--measure ", measure, " is of the whole process, no GPU's. Leave out --device."));
  }
  GPUMEM_RETURN_IF_ERROR(ParseSize("--min-size", min_size, &selection.min_bytes));
  GPUMEM_RETURN_IF_ERROR(ParseSize("--max-size", max_size, &selection.max_bytes));
  GPUMEM_RETURN_IF_ERROR(ParseAge("--min-age", min_age, &selection.min_age_ns));
  GPUMEM_RETURN_IF_ERROR(ParseAge("--max-age", max_age, &selection.max_age_ns));
  return selection;
}

absl::StatusOr<FrameRules> ViewOptions::Rules() const {
  FrameRules rules;
  rules.native = native == "none"   ? NativeFrames::kNone
                 : native == "full" ? NativeFrames::kFull
                                    : NativeFrames::kTelling;
  rules.imports = !no_imports;
  rules.invert = invert;
  rules.depth = depth;
  rules.split_devices = split == "device";
  rules.split_threads = split == "thread";
  for (const std::string& text : ignore) {
    GPUMEM_ASSIGN_OR_RETURN(Pattern pattern, CompilePattern("--ignore", text));
    if (pattern.is_set()) rules.ignore.push_back(std::move(pattern));
  }
  return rules;
}

absl::StatusOr<StackFilters> ViewOptions::Filters() const {
  StackFilters filters;
  GPUMEM_ASSIGN_OR_RETURN(filters.function, CompilePattern("--function", function));
  GPUMEM_ASSIGN_OR_RETURN(filters.file, CompilePattern("--file", file));
  GPUMEM_ASSIGN_OR_RETURN(filters.module, CompilePattern("--module", module));
  GPUMEM_ASSIGN_OR_RETURN(filters.thread, CompilePattern("--thread", thread));
  return filters;
}

absl::StatusOr<std::unique_ptr<LoadedView>> LoadView(const ViewOptions& options, const ViewNeeds& needs,
                                                     const std::vector<std::string>& arguments, Console* console) {
  ViewRequest request;
  GPUMEM_ASSIGN_OR_RETURN(const TraceOptions timed, WithTimes(options.trace, arguments, console));
  GPUMEM_ASSIGN_OR_RETURN(request.load, timed.Request(arguments, console));
  GPUMEM_ASSIGN_OR_RETURN(request.selection, options.Selection());
  GPUMEM_ASSIGN_OR_RETURN(request.rules, options.Rules());
  GPUMEM_ASSIGN_OR_RETURN(request.filters, options.Filters());
  request.selection.by_size = needs.by_size;
  request.by = options.by;
  request.by_labels = needs.by_labels;
  request.all_devices = needs.all_devices;
  absl::StatusOr<std::unique_ptr<LoadedView>> view = LoadView(std::move(request));
  console->ProgressDone();
  if (view.ok()) ReportLoading(options.trace, (*view)->trace.get(), console);
  return view;
}

}  // namespace gpumem
