// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Which part of a program a stack belongs to, told by the stack alone. Each frame is looked at once (what it says is a
// FrameClassification); a stack is the list of its frames' classifications, innermost first. Pure functions.
//
//   std::vector<FrameClassification> classifications;
//   for (const ResolvedFrame& frame : frames) classifications.push_back(ClassificationOf(frame));
//   StageName(StageOf(classifications))   // "backward"
//
// The innermost telling frame decides, with four exceptions: a constructor tells only where nothing else does; what
// happens inside a forward mark is backward (a forward pass that runs again there, too: that is recomputation); a
// forward pass called by something that evaluates is evaluation; and of frames that set something up (from_pretrained,
// the constructor of DDP, make_private) the outermost has all that happens inside.

#ifndef GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_STAGE_H_
#define GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_STAGE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
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
  kConstruction,  // of the model
  kLoad,
  kSave,
  kEvaluation,
  kCollection,  // gc, empty_cache
  kCollective,
  kWrapping,  // of the model: DDP, FSDP; compiling it
  kOptimizerSetup,
  kPrivacySetup,  // of Opacus' engine
  kLoraSetup,     // adapters are put into the model
};
inline constexpr size_t kStages = static_cast<size_t>(Stage::kLoraSetup) + 1;

// The program makes what it will use.
constexpr bool IsSetUp(Stage stage) {
  return stage == Stage::kConstruction || stage == Stage::kLoad || stage >= Stage::kWrapping;
}

absl::string_view StageName(Stage stage);   // "optimizer_step"; "other" for kNone
absl::string_view StageTitle(Stage stage);  // "optimizer step"

// A derived stage inside the stages that the program named: "train > backward". One that the program named itself is
// not said twice; kNone says nothing where the program says something.
std::string StagePath(absl::string_view user, Stage stage);       // with StageName
std::string StagePathTitle(absl::string_view user, Stage stage);  // with StageTitle

// What one frame says.
struct FrameClassification {
  Stage stage = Stage::kNone;
  Stage set_up = Stage::kNone;  // all that happens inside belongs to this
  bool is_weak = false;         // a constructor: tells where nothing else does
  bool is_evaluating = false;   // a function that evaluates, by its name
  bool is_mark = false;         // of a forward pass: the frames inside ran in a backward pass
  bool is_module_call = false;
};

FrameClassification ClassificationOf(const ResolvedFrame& frame);

Stage StageOf(const std::vector<FrameClassification>& innermost_first);
Stage StageOf(const std::vector<ResolvedFrame>& frames);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_STAGE_H_
