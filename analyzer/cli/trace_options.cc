// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "cli/trace_options.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "answers/report/state.h"
#include "base/format.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "ledger/load/window.h"
#include "ledger/saved/import_cache.h"

namespace gpumem {
namespace {

SharedLoads* shared_loads = nullptr;

LayerFilter ParseLayer(const std::string& name) {
  if (name == "driver") return LayerFilter::kDriver;
  if (name == "runtime") return LayerFilter::kRuntime;
  return name == "torch" ? LayerFilter::kTorch : LayerFilter::kAll;
}

// Names of moments are looked up in the trace before (WithTimes).
bool IsName(const std::string& text) { return !text.empty() && !ParseTime(text); }

absl::Status ParseBound(absl::string_view flag, const std::string& text, uint64_t* bound) {
  if (text.empty()) return absl::OkStatus();
  const std::optional<uint64_t> time = ParseTime(text);
  if (!time) {
    return absl::InvalidArgumentError(
        absl::StrCat("invalid time \"", text, "\" for ", flag,
                     ". Give seconds from the first event on, 1.5s, 200ms or 2min, \"step 10\", ",
                     "a stage, a mark's text, or end."));
  }
  *bound = *time;
  return absl::OkStatus();
}

std::string NameOfFile(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// "libtorch_cpu.so, libc10.so and 3 more"
std::string FilesText(const std::vector<std::string>& files) {
  constexpr size_t kMost = 2;
  const std::vector<std::string> first(files.begin(), files.begin() + std::min<std::ptrdiff_t>(kMost, files.size()));
  return absl::StrCat(absl::StrJoin(first, ", "),
                      files.size() > kMost ? absl::StrCat(" and ", files.size() - kMost, " more") : "");
}

// A trace of another machine lacks files of it here, and those without a build id cannot be told from the traced ones.
// One line, and only behind an answer that shows such a frame; what is wrong with files that were named is said at
// once.
void ReportNames(const Symbolizer& symbolizer, Console* console) {
  std::vector<std::string> absent, unchecked, signs;
  for (const ModuleReport& module : symbolizer.modules()) {
    if (module.problem.empty()) continue;
    const bool lacks_names = module.named < module.addresses;
    const std::string file = NameOfFile(module.path);
    (lacks_names ? absent : unchecked).push_back(file);
    signs.push_back(lacks_names ? absl::StrCat(file, "+0x") : absl::StrCat("(", file, ")"));
  }
  for (const std::string& note : symbolizer.search_notes()) console->Complain(note);
  if (signs.empty()) return;
  std::vector<std::string> clauses;
  if (!absent.empty())
    clauses.push_back(absl::StrCat("frames of ", FilesText(absent),
                                   " lack names: not here as traced. gpumemshim export "
                                   "trace --names, where it ran, or --symbols PATH gives them"));
  if (!unchecked.empty())
    clauses.push_back(
        absl::StrCat("names of ", FilesText(unchecked), " are those of the files here, unchecked: no build id"));
  console->ComplainLater(absl::StrCat(absl::StrJoin(clauses, "; "), "."), signs);
}

}  // namespace

absl::StatusOr<AnalyzeOptions> TraceOptions::ForAnalyze() const {
  AnalyzeOptions result;
  result.device = device;
  result.layer = ParseLayer(layer);
  result.timeline_buckets = timeline_buckets;
  result.plateaus = plateaus;
  GPUMEM_RETURN_IF_ERROR(ParseBound("--from", from, &result.from_ns));
  GPUMEM_RETURN_IF_ERROR(ParseBound("--to", to, &result.to_ns));
  if (result.from_ns <= result.to_ns) return result;
  return absl::InvalidArgumentError("--from is later than --to. Give the earlier time first.");
}

absl::StatusOr<LoadRequest> TraceOptions::Request(const std::vector<std::string>& arguments, Console* console) const {
  LoadRequest request;
  GPUMEM_ASSIGN_OR_RETURN(request.analyze, ForAnalyze());
  GPUMEM_ASSIGN_OR_RETURN(request.symbols, symbols.Options());
  std::error_code error;
  if (!sources.empty() && !std::filesystem::is_directory(sources, error)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--sources ", sources, " is not a folder. Name the one that holds the program's source files."));
  }
  request.sources = sources;
  request.place = arguments.empty() ? "" : arguments.front();
  request.resolves_stacks = shows_stacks;
  request.progress = [console](const std::string& what, uint64_t done, uint64_t all) {
    console->Progress(what, done, all);
  };
  return request;
}

void TraceOptions::AddFilterFlags(Flags* flags) {
  flags->Add("--json", &json, "exact numbers for machines (docs/json.md)");
  flags->Add("--device", &device, "only this GPU").Value("N").AtLeastZero();
  flags->Add("--layer", &layer, "only events of driver, runtime or torch")
      .Value("LAYER")
      .OneOf({"driver", "runtime", "torch", "all"});
  flags->Add("--from", &from, "look at what comes after this time (1.5s, step 10, a stage or mark)").Value("TIME");
  flags->Add("--to", &to, "look at what comes before this time (2min, step 20, end)").Value("TIME");
}

void TraceOptions::AddFlags(Flags* flags) {
  AddFilterFlags(flags);
  symbols.AddFlags(flags);
}

void TraceOptions::AddSourceFlag(Flags* flags) {
  flags->Add("--sources", &sources, "folder of the program's source files, for a trace from elsewhere").Value("DIR");
}

void AttributionFlags::AddFlags(Flags* flags) {
  flags->Add("--rules", &rules, "a file of rules for components and categories (docs/attribution.md)").Value("FILE");
}

void ListOptions::AddFlags(Flags* flags, size_t default_top) {
  top = default_top;
  top_option_ = flags->Add("--top,--limit", &top, "longest list of stacks; 0 = all").Value("K");
  flags->Add("--full-stacks", &full_stacks, "the frames of every stack shown");
  flags->Add("--native", &native, "with --full-stacks: native frames that tell something, all (full), or none")
      .Value("WHICH")
      .OneOf({"telling", "full", "none"});
  flags->Add("--by", &by, "group by line of your code, or by stack").Value("WHAT").OneOf({"line", "stack"});
}

TextOptions ListOptions::ForText(Detail detail) const {
  TextOptions text;
  text.detail = detail;
  text.top = top;
  text.full_stacks = full_stacks;
  if (native == "full") text.native = NativeFrames::kFull;
  if (native == "none") text.native = NativeFrames::kNone;
  text.by_stack = by == "stack" || full_stacks;
  return text;
}

void ReportLoading(const TraceOptions& options, LoadedTrace* loaded, Console* console) {
  console->ProgressDone();
  constexpr uint64_t kWorthTelling = 1000000000;
  if (const uint64_t took_ns = TakeImportNs(); took_ns > kWorthTelling) {
    console->Complain(absl::StrCat("Imported in ", FormatTime(took_ns), "; the next command on this file is faster."));
  }
  if (options.json) {
    const std::vector<std::string>& notes = loaded->symbolizer->notes();
    loaded->analysis.notes.insert(loaded->analysis.notes.end(), notes.begin(), notes.end());
  } else {
    ReportNames(*loaded->symbolizer, console);
  }
  if (loaded->is_damaged()) console->Complain(DamageText(loaded->input));
}

absl::StatusOr<TraceOptions> WithTimes(const TraceOptions& options, const std::vector<std::string>& arguments,
                                       Console* console) {
  TraceOptions timed = options;
  if (!IsName(options.from) && !IsName(options.to)) return timed;
  TraceOptions whole = options;
  whole.from.clear();
  whole.to.clear();
  GPUMEM_ASSIGN_OR_RETURN(LoadRequest request, whole.Request(arguments, console));
  request.resolves_stacks = false;
  GPUMEM_ASSIGN_OR_RETURN(const std::unique_ptr<LoadedTrace> loaded, LoadTrace(request));
  const auto name = [&](absl::string_view flag, Edge edge, std::string* bound) -> absl::Status {
    if (!IsName(*bound)) return absl::OkStatus();
    const absl::StatusOr<uint64_t> time = NamedTime(*bound, edge, loaded.get());
    if (absl::IsNotFound(time.status())) {
      return absl::InvalidArgumentError(
          absl::StrCat(flag, ": ", time.status().message(), " Times look like 1.5s, 200ms, 2min, step 10 or end."));
    }
    GPUMEM_RETURN_IF_ERROR(time.status());
    *bound = absl::StrCat(*time, "ns");
    return absl::OkStatus();
  };
  GPUMEM_RETURN_IF_ERROR(name("--from", Edge::kFrom, &timed.from));
  GPUMEM_RETURN_IF_ERROR(name("--to", Edge::kTo, &timed.to));
  return timed;
}

absl::StatusOr<std::unique_ptr<LoadedTrace>> LoadTrace(const TraceOptions& options,
                                                       const std::vector<std::string>& arguments, Console* console,
                                                       FurtherLook look) {
  GPUMEM_ASSIGN_OR_RETURN(const TraceOptions timed, WithTimes(options, arguments, console));
  GPUMEM_ASSIGN_OR_RETURN(LoadRequest request, timed.Request(arguments, console));
  request.look = std::move(look);
  absl::StatusOr<std::unique_ptr<LoadedTrace>> loaded = LoadTrace(request);
  console->ProgressDone();
  if (loaded.ok()) ReportLoading(options, loaded->get(), console);
  return loaded;
}

SharedLoads::SharedLoads() { shared_loads = this; }
SharedLoads::~SharedLoads() { shared_loads = nullptr; }

absl::StatusOr<std::shared_ptr<LoadedTrace>> LoadSection(const TraceOptions& options,
                                                         const std::vector<std::string>& arguments, Console* console) {
  // Of symbols and the form of the answer all sections have the same flags.
  const std::string request = absl::StrCat(options.device, "|", options.layer, "|", options.from, "|", options.to, "|",
                                           options.timeline_buckets, "|", options.plateaus, "|", options.shows_stacks,
                                           "|", options.sources, "|", arguments.empty() ? "" : arguments.front());
  std::shared_ptr<LoadedTrace> loaded = shared_loads == nullptr ? nullptr : shared_loads->Of(request);
  if (loaded != nullptr) {
    loaded->input.attribution = nullptr;
    loaded->input.leaks = nullptr;
    loaded->input.what_if = nullptr;
    return loaded;
  }
  GPUMEM_ASSIGN_OR_RETURN(loaded, LoadTrace(options, arguments, console));
  if (shared_loads != nullptr) shared_loads->Of(request) = loaded;
  return loaded;
}

int ExitCodeOf(const LoadedTrace& loaded) {
  return loaded.is_damaged() || loaded.analysis.losses.MissesEvents() ? kExitDamaged : kExitFine;
}

}  // namespace gpumem
