// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/load/load_trace.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "ledger/load/example_traces.h"
#include "ledger/load/find_traces.h"
#include "ledger/load/own_trace.h"
#include "ledger/saved/import_cache.h"
#include "ledger/saved/saved_answers.h"
#include "ledger/stacks/symbolized_stacks.h"

namespace gpumem {

absl::Status AsReadError(const absl::Status& status) {
  return absl::IsInvalidArgument(status) ? absl::DataLossError(status.message()) : status;
}

absl::StatusOr<std::unique_ptr<LoadedTrace>> LoadTrace(const LoadRequest& request) {
  auto loaded = std::make_unique<LoadedTrace>();
  GPUMEM_ASSIGN_OR_RETURN(const std::string found, FindTrace(request.place));
  const auto import_progress = [&](uint64_t done, uint64_t all) {
    if (request.progress) request.progress(absl::StrCat("importing ", found), done, all);
  };
  const absl::StatusOr<ReadableTrace> readable = MakeReadable(found, import_progress);
  if (!readable.ok()) return AsReadError(readable.status());
  loaded->file = found;
  loaded->sources = request.sources;
  const std::string& path = readable->path;
  const auto progress = [&](uint64_t done, uint64_t all) {
    if (request.progress) request.progress(absl::StrCat("reading ", path), done, all);
  };
  const bool may_keep = MayKeepAnswers(request, path);
  const bool needs_look = request.look && !(request.spares_look && may_keep && HasAnswers(path));
  if (!may_keep || needs_look || !ReadSavedAnalysis(path, &loaded->analysis, &loaded->stacks)) {
    absl::StatusOr<Analysis> analysis = Analyze(path, request.analyze, &loaded->stacks, progress, request.look);
    if (!analysis.ok()) return AsReadError(analysis.status());
    loaded->analysis = *std::move(analysis);
    if (may_keep && IsWorthKeeping(loaded->analysis)) SaveAnalysis(loaded->analysis, loaded->stacks);
  }
  loaded->keeps_answers = may_keep && IsWorthKeeping(loaded->analysis);
  if (request.analyze.device >= 0 && loaded->analysis.devices.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("no memory of GPU ", request.analyze.device, " in ", found, ". Leave --device out to see all."));
  }
  SymbolizerOptions symbols = request.symbols;
  symbols.search.working_directory = loaded->analysis.process.working_directory;
  symbols.search.needs_build_ids = !IsOwnTrace(loaded->analysis.path, loaded->analysis.process);
  symbols.progress = request.progress;
  loaded->symbolizer = std::make_unique<Symbolizer>(&loaded->stacks, std::move(symbols));
  if (request.resolves_stacks) loaded->symbolizer->Prepare();
  loaded->source = std::make_unique<SymbolizedStacks>(&loaded->stacks, loaded->symbolizer.get());
  loaded->input = {&loaded->analysis, loaded->source.get(), request.analyze,
                   request.place.empty() ? "" : TraceArgument(found)};
  return loaded;
}

absl::Status RunAnalyses(const LoadedTrace& loaded, const std::vector<TwoPassAnalysis*>& analyses) {
  std::vector<TwoPassAnalysis*> wanted;
  std::copy_if(analyses.begin(), analyses.end(), std::back_inserter(wanted),
               [](auto* each) { return each != nullptr; });
  if (wanted.empty()) return absl::OkStatus();
  return AsReadError(RunTwoPasses(loaded.analysis.path, loaded.stacks.objects(), wanted));
}

FrameResolver ResolverOf(LoadedTrace* loaded) {
  Symbolizer* const symbolizer = loaded->symbolizer.get();
  return [symbolizer](uint32_t frame) -> const std::vector<ResolvedFrame>& { return symbolizer->ResolveFrame(frame); };
}

}  // namespace gpumem
