// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "loading/leaks.h"

#include <sys/stat.h>

#include <fstream>
#include <map>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "loading/saved_answers.h"
#include "report/frame_class.h"
#include "report/stack_view.h"

namespace gpumem {
namespace {

constexpr uint64_t kMaxSourceBytes = uint64_t{4} << 20;
constexpr uint64_t kNsPerSecond = 1'000'000'000;

LeakPlace PlaceOf(const std::vector<ResolvedFrame>& frames, const std::string& working_directory) {
  LeakPlace place;
  place.site = ViewStack(frames, "", working_directory).site;
  const ResolvedFrame* nearest = nullptr;  // the user's innermost frame, else a library's
  bool is_users = false;
  for (const ResolvedFrame& frame : frames) {
    if (!frame.short_function.empty()) place.names.push_back(frame.short_function);
    if (!frame.file.empty()) place.names.push_back(frame.file);
    const FrameClass kind = ClassifyFrame(frame);
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

// Reads a source file once. One that was changed after the program had started is not the one that ran.
class Sources {
 public:
  Sources(std::string working_directory, uint64_t started_ns)
      : working_directory_(std::move(working_directory)), started_ns_(started_ns) {}

  const std::vector<std::string>& Lines(const std::string& file) {
    const auto [it, is_new] = files_.try_emplace(file);
    if (is_new) it->second = Read(absl::StartsWith(file, "/") ? file : absl::StrCat(working_directory_, "/", file));
    return it->second;
  }

 private:
  std::vector<std::string> Read(const std::string& path) const {
    struct stat about;
    if (stat(path.c_str(), &about) != 0 || !S_ISREG(about.st_mode)) return {};
    if (static_cast<uint64_t>(about.st_size) > kMaxSourceBytes) return {};
    const auto changed_ns =
        static_cast<uint64_t>(about.st_mtim.tv_sec) * kNsPerSecond + static_cast<uint64_t>(about.st_mtim.tv_nsec);
    if (started_ns_ != 0 && changed_ns > started_ns_) return {};
    std::ifstream stream(path, std::ios::binary);
    std::stringstream text;
    text << stream.rdbuf();
    return absl::StrSplit(text.str(), '\n');
  }

  std::string working_directory_;
  uint64_t started_ns_;
  std::map<std::string, std::vector<std::string>> files_;
};

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
  const auto sources = std::make_shared<Sources>(working_directory, loaded->input.StartRealtime());
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
