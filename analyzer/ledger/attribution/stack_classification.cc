// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/attribution/stack_classification.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "trace/import_info.h"

namespace gpumem {
namespace {

// Of at::_ops::NAME::call. to_dtype_layout and to_device are what .cuda() and .to(device) are; to_dtype is a
// computation.
std::optional<Origin> OriginOf(absl::string_view function) {
  if (!absl::ConsumePrefix(&function, "at::_ops::")) return std::nullopt;
  const absl::string_view name = function.substr(0, function.find("::"));
  for (const absl::string_view moves : {"to_dtype_layout", "to_device"}) {
    if (name == moves) return Origin::kMoved;
  }
  for (const absl::string_view makes : {"zeros", "ones", "full", "empty", "rand", "arange", "linspace", "eye"}) {
    if (absl::StartsWith(name, makes)) return Origin::kMade;  // randint, randn, zeros_like, empty_strided
  }
  return Origin::kComputed;
}

}  // namespace

const StackClassifier::Frame& StackClassifier::FrameOf(uint32_t frame_id) {
  const auto [it, is_new] = frames_.try_emplace(frame_id);
  if (!is_new) return it->second;
  Frame made;
  for (const ResolvedFrame& frame : resolve_(frame_id)) {
    const FrameClassification classification = ClassificationOf(frame);
    if (made.classification.stage == Stage::kNone) made.classification = classification;
    if (!made.category) made.category = rules_->CategoryOf(frame);
    if (absl::string_view stated = frame.function; !frame.python && absl::ConsumePrefix(&stated, kStatedCategory))
      made.stated = CategoryNamed(absl::StripSuffix(stated, ">"));
    if (const auto origin = OriginOf(frame.function); origin && !frame.python) made.origin = origin;
    made.is_python |= frame.python;
    made.is_allocator |= !frame.python && absl::StrContains(frame.function, "Allocator");
    made.accumulates |= absl::StrContains(frame.function, "AccumulateGrad");
    if (made.compiled_in == 0) made.compiled_in = frame.compiled_in;
  }
  return frames_[frame_id] = made;
}

// Of the module that compiled code runs in, as far as its line tells, and the one whose call was seen: if the one lies
// inside the other, it; else the one that was seen.
uint32_t StackClassifier::Innermost(uint32_t of_line, uint32_t seen) const {
  const NnModuleInfo* const line = stacks_->objects().module(of_line);
  const NnModuleInfo* const call = stacks_->objects().module(seen);
  if (line == nullptr || call == nullptr) return seen == 0 ? of_line : seen;
  // What torch.fx made of the program's modules is none of them.
  if (call->class_name == "GraphModule") return of_line;
  const bool is_inside =
      line->root == call->root && (call->name.empty() || absl::StartsWith(line->name, absl::StrCat(call->name, ".")));
  return is_inside ? of_line : seen;
}

StackClassification StackClassifier::Make(uint64_t stack_id) {
  StackClassification classification;
  scratch_.clear();
  bool is_marked = false, is_python = false;
  uint32_t compiled_in = 0;
  for (const uint32_t id : stacks_->Frames(stack_id)) {
    const Frame& frame = FrameOf(id);
    scratch_.push_back(frame.classification);
    if (!classification.category) classification.category = frame.category;
    if (!classification.stated) classification.stated = frame.stated;
    classification.accumulates |= frame.accumulates;
    // The outermost of the operators behind the innermost line of Python is the one that the line calls.
    is_python |= frame.is_python;
    if (!is_python && frame.origin) classification.origin = *frame.origin;
    classification.by_allocator |= !is_python && frame.is_allocator;
    const FrameInfo* const info = stacks_->frame(id);
    if (info == nullptr) continue;
    classification.is_loss |= classification.module == 0 && frame.classification.stage == Stage::kLoss;
    if (classification.module == 0 && compiled_in == 0) compiled_in = frame.compiled_in;
    if (classification.module == 0) classification.module = info->nn_module;
    if (!info->forward || std::exchange(is_marked, true)) continue;
    classification.node = info->node;
    classification.recomputed = classification.module != 0;
  }
  if (compiled_in != 0) classification.module = Innermost(compiled_in, classification.module);
  classification.stage = StageOf(scratch_);
  classification.evaluates =
      std::any_of(scratch_.begin(), scratch_.end(), [](const FrameClassification& f) { return f.is_evaluating; });
  classification.is_weak = classification.stage == Stage::kConstruction &&
                           std::none_of(scratch_.begin(), scratch_.end(), [](const FrameClassification& f) {
                             return f.set_up != Stage::kNone || (f.stage == Stage::kConstruction && !f.is_weak);
                           });
  const auto calls = [](const FrameClassification& frame) { return frame.is_module_call; };
  if (!is_marked && classification.stage == Stage::kBackward) {
    classification.recomputed =
        std::any_of(scratch_.begin(), scratch_.end(), calls) &&
        std::find_if(scratch_.begin(), scratch_.end(), calls) <
            std::find_if(
                scratch_.begin(), scratch_.end(),
                [](const FrameClassification& frame) { return frame.stage == Stage::kBackward; });
  }
  return classification;
}

StackClassification StackClassifier::Of(uint64_t stack_id) {
  const auto it = classifications_.find(stack_id);
  if (it != classifications_.end()) return it->second;
  return classifications_[stack_id] = Make(stack_id);
}

std::vector<uint32_t> StackClassifier::ModulePath(uint64_t stack_id) {
  std::vector<uint32_t> path;
  const auto add = [&path](uint32_t module) {
    if (module != 0 && std::find(path.begin(), path.end(), module) == path.end()) path.push_back(module);
  };
  for (const uint32_t id : stacks_->Frames(stack_id)) {
    add(FrameOf(id).compiled_in);
    const FrameInfo* const frame = stacks_->frame(id);
    if (frame != nullptr) add(frame->nn_module);
  }
  return path;
}

}  // namespace gpumem
