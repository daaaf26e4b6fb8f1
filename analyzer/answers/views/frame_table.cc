// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/views/frame_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "ledger/stacks/names.h"
#include "ledger/stacks/stack_view.h"

namespace gpumem {
namespace {

// Bits of what a frame matches.
constexpr uint8_t kFunction = 1, kFile = 2, kModule = 4;

// "torch.nn.modules.linear" for "torch/nn/modules/linear.py".
std::string PythonModule(absl::string_view file) {
  absl::string_view name = file;
  absl::ConsumeSuffix(&name, ".py");
  absl::ConsumeSuffix(&name, "/__init__");
  return absl::StrReplaceAll(name, {{"/", "."}});
}

bool IsTellingUserFrame(const ResolvedFrame& frame, FrameClass kind) {
  return kind == FrameClass::kUser && (frame.line != 0 || !absl::StrContains(frame.function, "+0x"));
}

ViewFrame ToViewFrame(const ResolvedFrame& frame, absl::string_view working_directory) {
  ViewFrame view;
  view.label = FrameText(frame, working_directory);
  view.function = frame.short_function.empty() ? frame.function : frame.short_function;
  view.file = frame.file.empty() ? "" : ShortFile(frame.file, working_directory);
  view.path = frame.file;
  view.line = frame.line;
  view.module = frame.python ? PythonModule(view.file) : frame.module;
  view.kind = ClassifyFrame(frame);
  return view;
}

}  // namespace

uint32_t FrameTable::Intern(ViewFrame frame) {
  const auto [it, is_new] =
      index_.try_emplace(FrameKey(frame.label, frame.path, frame.module), static_cast<uint32_t>(frames_.size()));
  if (is_new) frames_.push_back(std::move(frame));
  return it->second;
}

uint32_t FrameTable::InternLabel(std::string label) {
  ViewFrame frame;
  frame.function = label;
  frame.label = std::move(label);
  return Intern(std::move(frame));
}

bool FrameTable::IsIgnored(const ViewFrame& frame) const {
  return std::any_of(rules_.ignore.begin(), rules_.ignore.end(), [&](const Pattern& pattern) {
    return pattern.Matches(frame.label) || pattern.Matches(frame.function) || pattern.Matches(frame.path);
  });
}

FrameTable::Facts FrameTable::Judge(const ResolvedFrame& resolved) {
  Facts facts;
  facts.is_python = resolved.python;
  facts.is_mark = IsMark(resolved) && !resolved.forward;
  ViewFrame frame = ToViewFrame(resolved, working_directory_);
  if (frame.kind == FrameClass::kImportMachinery && !rules_.imports) return facts;
  if (IsIgnored(frame)) return facts;
  const bool is_code = resolved.python ? !IsTrampoline(resolved) : IsTellingUserFrame(resolved, frame.kind);
  const bool tells = facts.is_mark || is_code;
  facts.full = Intern(std::move(frame));
  if (resolved.forward) {
    // It stands between two pieces of Python, whatever native frames are shown.
    facts.is_python = true;
    facts.reported = facts.full;
    return facts;
  }
  if (tells) facts.reported = facts.full;
  facts.is_code = is_code;
  if (resolved.python || tells) return facts;
  if (const absl::string_view workspace = WorkspaceOf(resolved); !workspace.empty())
    facts.workspace = InternLabel(std::string(workspace));
  ViewFrame reported;
  reported.label = AutogradNode(resolved.function);
  if (reported.label.empty()) {
    reported.label = AtenOperator(resolved.function);
    facts.is_operator = !reported.label.empty();
  }
  reported.function = reported.label;
  if (!reported.label.empty() && !IsIgnored(reported)) facts.reported = Intern(std::move(reported));
  return facts;
}

const std::vector<FrameTable::Facts>& FrameTable::FactsOf(uint32_t frame_id) {
  const auto [it, is_new] = facts_.try_emplace(frame_id);
  if (!is_new) return it->second;
  std::vector<Facts> facts;
  for (const ResolvedFrame& frame : source_->Frame(frame_id)) facts.push_back(Judge(frame));
  return it->second = std::move(facts);
}

// Outermost first.
bool FrameTable::AppendShown(const std::vector<uint32_t>& frame_ids) {
  const auto push = [&](uint32_t frame) {
    if (frame != kNone) resolved_.push_back(frame);
  };
  bool inside_operator = false, marked = false;
  uint32_t workspace = kNone;
  uint32_t last_reported = kNone;  // of native frames: an operator or a node has many frames
  for (auto id = frame_ids.rbegin(); id != frame_ids.rend(); ++id) {
    const std::vector<Facts>& facts = FactsOf(*id);
    for (auto fact = facts.rbegin(); fact != facts.rend(); ++fact) {
      const bool is_end = fact->is_mark && id == frame_ids.rbegin();
      marked |= is_end && fact->full != kNone;
      if (fact->is_code) workspace = kNone;
      if (fact->workspace != kNone) workspace = fact->workspace;
      if (rules_.native == NativeFrames::kFull || fact->is_mark) {
        if (rules_.native == NativeFrames::kFull || is_end) push(fact->full);  // further in it is of native frames
        continue;
      }
      if (fact->is_python) {
        inside_operator = false;
        last_reported = kNone;
      } else if (rules_.native == NativeFrames::kNone || fact->reported == last_reported ||
                 (fact->is_operator && std::exchange(inside_operator, true))) {
        continue;  // an operator inside an operator is how that one is made
      } else {
        inside_operator = fact->is_operator || (inside_operator && fact->reported == kNone);
        if (fact->reported != kNone) last_reported = fact->reported;
      }
      push(fact->reported);
    }
  }
  if (resolved_.size() <= (marked ? 1 : 0)) return false;
  // What a library keeps for itself is below no line, whoever came first.
  if (workspace != kNone) resolved_.insert(resolved_.begin(), workspace);
  return true;
}

// Innermost first.
std::vector<ResolvedFrame> FrameTable::FramesOf(const AggregatedStack& stack) {
  std::vector<ResolvedFrame> frames;
  for (const uint32_t id : source_->FrameIds(stack.stack_id)) {
    const std::vector<ResolvedFrame>& resolved = source_->Frame(id);
    frames.insert(frames.end(), resolved.begin(), resolved.end());
  }
  return frames;
}

// The site that reports give: it needs all frames as they are.
std::string FrameTable::Placeholder(const AggregatedStack& stack) {
  return ViewStack(FramesOf(stack), source_->Api(stack.api), working_directory_).site;
}

std::vector<std::string> FrameTable::Lines(const AggregatedStack& stack) {
  std::vector<ResolvedFrame> frames = FramesOf(stack);
  if (!rules_.ignore.empty() || !rules_.imports) {
    std::erase_if(frames, [this](const ResolvedFrame& frame) { return Judge(frame).full == kNone; });
  }
  const StackView view = ViewStack(frames, source_->Api(stack.api), working_directory_);
  std::vector<std::string> lines(view.callers.rbegin(), view.callers.rend());
  lines.push_back(view.site);
  return lines;
}

std::string FrameTable::ThreadLabel(uint32_t thread) {
  const ThreadInfo* const info = source_->Thread(thread);
  if (info == nullptr) return "thread not known";
  return absl::StrCat("thread ", info->tid, info->name.empty() ? "" : absl::StrCat(" (", info->name, ")"));
}

const std::vector<uint32_t>& FrameTable::Resolve(const AggregatedStack& stack) {
  resolved_.clear();
  const bool shown = AppendShown(source_->FrameIds(stack.stack_id));
  if (!shown) resolved_.push_back(InternLabel(Placeholder(stack)));
  if (rules_.invert) std::reverse(resolved_.begin(), resolved_.end());
  if (rules_.depth != 0 && resolved_.size() > rules_.depth) resolved_.resize(rules_.depth);
  if (rules_.split_threads) resolved_.insert(resolved_.begin(), InternLabel(ThreadLabel(stack.thread)));
  if (rules_.split_devices) resolved_.insert(resolved_.begin(), InternLabel(DeviceLabel(stack.device)));
  if (rules_.group) {
    std::vector<uint32_t> labels;
    for (std::string& label : rules_.group(stack)) labels.push_back(InternLabel(std::move(label)));
    resolved_.insert(resolved_.begin(), labels.begin(), labels.end());
  }
  return resolved_;
}

uint8_t FrameTable::MatchesOf(uint32_t frame_id, const StackFilters& filters) {
  const auto [it, is_new] = matches_.try_emplace(frame_id);
  if (!is_new) return it->second;
  uint8_t bits = 0;
  for (const ResolvedFrame& frame : source_->Frame(frame_id)) {
    const ViewFrame view = ToViewFrame(frame, working_directory_);
    if (filters.function.Matches(frame.function)) bits |= kFunction;
    for (const std::string& reported : {AutogradNode(frame.function), AtenOperator(frame.function)}) {
      if (!frame.python && !reported.empty() && filters.function.Matches(reported)) bits |= kFunction;
    }
    if (!view.path.empty() && filters.file.Matches(view.path)) bits |= kFile;
    if (!view.module.empty() && filters.module.Matches(view.module)) bits |= kModule;
  }
  return it->second = bits;
}

bool FrameTable::Matches(const AggregatedStack& stack, const StackFilters& filters) {
  if (filters.thread.is_set()) {
    const ThreadInfo* const thread = source_->Thread(stack.thread);
    if (thread == nullptr) return false;
    if (!filters.thread.Matches(thread->name) && !filters.thread.Matches(absl::StrCat(thread->tid))) return false;
  }
  uint8_t missing = 0;
  if (filters.function.is_set()) missing |= kFunction;
  if (filters.file.is_set()) missing |= kFile;
  if (filters.module.is_set()) missing |= kModule;
  if (missing == 0) return true;
  for (const uint32_t id : source_->FrameIds(stack.stack_id)) {
    missing = static_cast<uint8_t>(missing & ~MatchesOf(id, filters));
    if (missing == 0) return true;
  }
  return false;
}

void FilterStacks(const StackFilters& filters, FrameTable* frames, AggregatedStacks* aggregated) {
  if (!filters.any()) {
    aggregated->shown = aggregated->all;
    return;
  }
  std::erase_if(aggregated->stacks, [&](const AggregatedStack& stack) { return !frames->Matches(stack, filters); });
  aggregated->shown = {};
  for (const AggregatedStack& stack : aggregated->stacks) aggregated->shown.Add(stack.weight);
}

}  // namespace gpumem
