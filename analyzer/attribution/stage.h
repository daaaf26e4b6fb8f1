// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Which part of a program a stack belongs to, told by the stack alone. Each frame is looked at once (what it says is a
// FrameSense); a stack is the list of its frames' senses, innermost first. Pure functions.
//
//   std::vector<FrameSense> senses;
//   for (const ResolvedFrame& frame : frames) senses.push_back(SenseOf(frame));
//   StageName(StageOf(senses))   // "backward"
//
// The innermost telling frame decides, with three exceptions: a constructor tells only where nothing else does; what
// happens inside a forward mark is backward (a forward pass that runs again there, too: that is recomputation); and a
// forward pass called by something that evaluates is evaluation.

#ifndef GPUMEM_ANALYZER_ATTRIBUTION_STAGE_H_
#define GPUMEM_ANALYZER_ATTRIBUTION_STAGE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "symbols/symbolizer.h"

namespace gpumem {

enum class Stage : uint8_t {
  kNone,  // nothing tells
  kForward,
  kLoss,
  kBackward,
  kOptimizer,
  kZeroGrad,
  kData,          // loading and moving of batches
  kConstruction,  // of the model, its wrappers and its optimizer
  kLoad,
  kSave,
  kEvaluation,
  kCollection,  // gc, empty_cache
  kCollective,
};
inline constexpr size_t kStages = static_cast<size_t>(Stage::kCollective) + 1;

absl::string_view StageName(Stage stage);   // "optimizer_step"; "other" for kNone
absl::string_view StageTitle(Stage stage);  // "optimizer step"

// What one frame says.
struct FrameSense {
  Stage stage = Stage::kNone;
  bool is_weak = false;        // a constructor: tells where nothing else does
  bool is_evaluating = false;  // a function that evaluates, by its name
  bool is_mark = false;        // of a forward pass: the frames inside ran in a backward pass
  bool is_module_call = false;
};

FrameSense SenseOf(const ResolvedFrame& frame);

Stage StageOf(const std::vector<FrameSense>& innermost_first);
Stage StageOf(const std::vector<ResolvedFrame>& frames);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ATTRIBUTION_STAGE_H_
