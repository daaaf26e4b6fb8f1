// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/load/leaks.h"

#include <fstream>
#include <map>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "ledger/load/source_files.h"
#include "ledger/saved/saved_answers.h"
#include "ledger/stacks/frame_class.h"
#include "ledger/stacks/stack_view.h"

namespace gpumem {
namespace {

LeakPlace PlaceOf(const std::vector<ResolvedFrame>& frames, const std::string& working_directory) {
  LeakPlace place;
  const StackView view = ViewStack(frames, "", working_directory);
  place.site = view.site;
  const ResolvedFrame* nearest = nullptr;  // the user's innermost frame, else a library's
  bool is_users = false;
  for (const ResolvedFrame& frame : frames) {
    if (!frame.short_function.empty()) place.names.push_back(frame.short_function);
    if (!frame.file.empty()) place.names.push_back(frame.file);
    const FrameClass kind = view.is_workspace ? FrameClass::kNative : ClassifyFrame(frame);
    if (kind == FrameClass::kUser) {
      place.frames.push_back({frame.file, frame.short_function, frame.line, frame.python});
      if (!std::exchange(is_users, true)) nearest = &frame;
    } else if (kind == FrameClass::kLibrary && nearest == nullptr) {
      nearest = &frame;
    }
  }
  if (nearest != nullptr) {
    place.file = nearest->file;
    place.line = nearest->line;
  }
  return place;
}

absl::StatusOr<Suppressions> ReadSuppressions(const std::string& path) {
  if (path.empty()) return Suppressions();
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot read ", path, ", in --suppressions. Give a file of leak:PATTERN lines (docs/leaks.md)."));
  }
  std::stringstream text;
  text << file.rdbuf();
  absl::StatusOr<Suppressions> parsed = Suppressions::Parse(text.str());
  if (parsed.ok()) return parsed;
  return absl::InvalidArgumentError(absl::StrCat(path, ", ", parsed.status().message(), ". docs/leaks.md has more."));
}

}  // namespace

absl::StatusOr<std::unique_ptr<LoadedLeakFinder>> LoadedLeakFinder::Make(const std::string& suppressions_file,
                                                                         LoadedTrace* loaded) {
  const SavedAnswers* const answers = suppressions_file.empty() ? AnswersOf(loaded) : nullptr;
  if (answers == nullptr) return MakeReplaying(suppressions_file, loaded);
  auto made = std::make_unique<LoadedLeakFinder>();
  made->kept_ = std::make_unique<LeakFindings>(answers->leaks());
  return made;
}

absl::StatusOr<std::unique_ptr<LoadedLeakFinder>> LoadedLeakFinder::MakeReplaying(const std::string& suppressions_file,
                                                                                  LoadedTrace* loaded) {
  auto made = std::make_unique<LoadedLeakFinder>();
  GPUMEM_ASSIGN_OR_RETURN(made->suppressions_, ReadSuppressions(suppressions_file));
  const std::string& working_directory = loaded->analysis.process.working_directory;
  const auto places = std::make_shared<std::map<uint64_t, LeakPlace>>();
  StackSource* const stacks = loaded->source.get();
  const PlaceOfStack place_of = [places, stacks, working_directory](uint64_t stack) {
    const auto [it, is_new] = places->try_emplace(stack);
    if (is_new) it->second = PlaceOf(stacks->Frames(stack), working_directory);
    return it->second;
  };
  const auto sources = std::make_shared<SourceFiles>(*loaded);
  const auto& asked = loaded->input.asked;
  LeakRequest request;
  request.from_ns = asked.from_ns == 0 ? 0 : loaded->input.window_start_ns();
  request.to_ns = asked.to_ns == UINT64_MAX ? UINT64_MAX : loaded->input.window_end_ns();
  request.suppressions = &made->suppressions_;
  request.source = [sources](const std::string& file) { return sources->Lines(file); };
  made->finder_.emplace(&loaded->analysis, &loaded->stacks, ResolverOf(loaded), place_of, std::move(request));
  return made;
}

std::unique_ptr<LeakFindings> LoadedLeakFinder::Take(LoadedTrace* loaded) {
  if (kept_ == nullptr) kept_ = std::make_unique<LeakFindings>(finder_->Take());
  kept_->misses_events = loaded->analysis.MissesEvents();
  loaded->input.leaks = kept_.get();
  return std::move(kept_);
}

absl::StatusOr<std::unique_ptr<LeakFindings>> LoadLeaks(const std::string& suppressions_file, LoadedTrace* loaded) {
  GPUMEM_ASSIGN_OR_RETURN(const auto finder, LoadedLeakFinder::Make(suppressions_file, loaded));
  GPUMEM_RETURN_IF_ERROR(RunAnalyses(*loaded, {finder->analysis()}));
  return finder->Take(loaded);
}

}  // namespace gpumem
