// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "report/phase.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "report/frame_class.h"

namespace gpumem {
namespace {

absl::string_view PhaseOfPython(const ResolvedFrame& frame) {
  if (absl::StrContains(frame.file, "/torch/optim/")) return "optimizer";
  if (absl::EndsWith(frame.function, "_wrapped_call_impl") || absl::EndsWith(frame.function, "_call_impl"))
    return "forward";
  if (absl::EndsWith(frame.function, ".backward") || absl::EndsWith(frame.function, "_engine_run_backward"))
    return "backward";
  return "";
}

absl::string_view PhaseOfFrame(const ResolvedFrame& frame) {
  if (frame.python) return PhaseOfPython(frame);
  const bool engine = absl::StrContains(frame.function, "autograd::Engine::");
  return engine || !AutogradNode(frame.function).empty() ? "backward" : "";
}

bool IsConstructor(const ResolvedFrame& frame) {
  return frame.python && absl::EndsWith(frame.function, ".__init__") &&
         ClassifyFrame(frame) != FrameClass::kStandardLibrary;
}

}  // namespace

absl::string_view PhaseOf(const std::vector<ResolvedFrame>& frames) {
  for (const ResolvedFrame& frame : frames) {
    const absl::string_view phase = PhaseOfFrame(frame);
    if (!phase.empty()) return phase;
  }
  return std::any_of(frames.begin(), frames.end(), IsConstructor) ? "model construction" : "";
}

const StackUse* ReachedBy(const LiveSet& live) {
  const auto found = std::find_if(live.stacks.begin(), live.stacks.end(),
                                  [&live](const StackUse& use) { return use.newest_ns == live.time_ns; });
  return found == live.stacks.end() ? nullptr : &*found;
}

std::string WhenText(const LiveSet& live, const ReportInput& input) {
  const StackUse* const reached = ReachedBy(live);
  if (reached == nullptr) return "";
  const absl::string_view phase = PhaseOf(input.stacks->Frames(reached->stack_id));
  return phase.empty() ? "" : absl::StrCat(" in ", phase);
}

}  // namespace gpumem
