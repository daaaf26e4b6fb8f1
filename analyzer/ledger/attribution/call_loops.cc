// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/attribution/call_loops.h"

#include <xxhash.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "ledger/attribution/stage.h"

namespace gpumem {
namespace {

// Of a line that allocates in several operators: enough to tell that one of them comes again.
constexpr size_t kMostStacksOfLine = 16;

uint64_t Mix(uint64_t a, uint64_t b, uint64_t c) {
  const uint64_t parts[] = {a, b, c};
  return XXH3_64bits(parts, sizeof(parts));
}

bool IsPass(const FrameClassification& frame) {
  return frame.is_module_call || frame.stage == Stage::kForward || frame.stage == Stage::kLoss ||
         frame.stage == Stage::kBackward || frame.stage == Stage::kOptimizer;
}

}  // namespace

const CallLoops::Path CallLoops::kNowhere;

// Where in a function: the line, and in it the bytecode's position, since a line may call several functions; in native
// code the address.
const CallLoops::Site& CallLoops::SiteOf(uint32_t frame, const FrameInfo& info) {
  const auto [found, is_new] = sites_.try_emplace(frame);
  Site& site = found->second;
  if (!is_new) return site;
  const std::vector<ResolvedFrame>& resolved = resolve_(frame);
  if (resolved.empty()) {
    site.line = info.pc;
    return site;
  }
  const ResolvedFrame& function = resolved.back();
  const std::string name = absl::StrCat(function.file, ":", function.function);
  site.function = Mix(XXH3_64bits(name.data(), name.size()), info.nn_module, 0);
  site.line = function.python ? uint64_t{function.line} << 32 | info.instruction : function.offset;
  for (const ResolvedFrame& each : resolved) {
    const FrameClassification classification = ClassificationOf(each);
    site.in_pass |= info.nn_module != 0 || IsPass(classification) || (each.python && each.short_function == "forward");
    site.in_set_up |= IsSetUp(classification.stage) || classification.set_up != Stage::kNone;
  }
  return site;
}

CallLoops::Path CallLoops::Make(uint64_t stack) {
  const std::vector<uint32_t> frames = stacks_->Frames(stack);
  bool has_python = false;
  for (const uint32_t id : frames) {
    const FrameInfo* const frame = stacks_->frame(id);
    if (frame == nullptr || frame->cut || frame->forward) return {};
    has_python |= frame->python_code != 0;
  }
  Path path;
  Site above;
  for (auto id = frames.rbegin(); id != frames.rend() && path.sites.size() < kMostFrames; ++id) {
    const FrameInfo& frame = *stacks_->frame(*id);
    if (has_python && frame.python_code == 0) continue;
    Site site = SiteOf(*id, frame);
    site.place = Mix(above.place, site.function, site.line);
    site.in_pass |= above.in_pass;
    site.in_set_up |= above.in_set_up;
    path.sites.push_back(site);
    path.knows_modules |= frame.nn_module != 0;
    above = site;
  }
  return path;
}

const CallLoops::Path& CallLoops::PathOf(uint64_t stack) {
  const auto found = paths_.find(stack);
  return found != paths_.end() ? *found->second : *(paths_[stack] = std::make_unique<Path>(Make(stack)));
}

void CallLoops::Allocated(uint32_t thread, uint64_t stack, absl::FunctionRef<void(const Place&)> further) {
  const Path& whole = PathOf(stack);
  const std::vector<Site>& path = whole.sites;
  if (path.empty()) return;
  Thread& state = threads_[thread];
  const std::vector<Site>& last = std::exchange(state.path, &whole)->sites;
  std::vector<Level>& levels = state.levels;
  const auto differs = std::mismatch(path.begin(), path.end(), last.begin(), last.end(),
                                     [](const Site& a, const Site& b) { return a.place == b.place; });
  const auto common = static_cast<size_t>(differs.first - path.begin());
  // Where a function's position changed; behind the last where its line is the same.
  size_t level = std::min(common, path.size() - 1);
  bool is_back = false;
  if (common == path.size()) {
    auto& stacks = levels[level].stacks;
    is_back = std::find(stacks.begin(), stacks.end(), stack) != stacks.end();
    if (is_back) stacks.clear();
    if (stacks.size() < kMostStacksOfLine) stacks.push_back(stack);
  } else if (common < last.size()) {
    const bool is_other = path[level].function != last[level].function;
    is_back = is_other ? path[level].function == levels[level].function && path[level].line <= levels[level].line
                       : path[level].line < last[level].line;
    levels[level].stacks = {stack};
  }
  levels.resize(std::min(levels.size(), level + 1));
  for (size_t i = levels.size(); i < path.size(); ++i) levels.push_back({path[i].function, path[i].line, {stack}});
  while (is_back) {
    const Site& site = path[level];
    Level& here = levels[level];
    further({site.place, level, site.in_pass, site.in_set_up});
    is_back = site.function == here.function && site.line <= here.line;  // again at the beginning of its call
    if (is_back) here.line = site.line;
    if (level-- == 0 || (site.in_pass && !path[level].in_pass && !whole.knows_modules)) return;
    if (is_back) levels[level].stacks = {stack};
  }
}

}  // namespace gpumem
