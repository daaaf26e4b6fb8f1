// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/attribution/stage.h"

#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace gpumem {
namespace {

struct StageWords {
  absl::string_view name, title;
};
constexpr StageWords kStageWords[] = {
    {"other", "other"},
    {"forward", "forward"},
    {"loss", "loss"},
    {"backward", "backward"},
    {"optimizer_step", "optimizer step"},
    {"zero_grad", "zero_grad"},
    {"data", "data"},
    {"model_construction", "model construction"},
    {"checkpoint_load", "checkpoint load"},
    {"checkpoint_save", "checkpoint save"},
    {"evaluation", "evaluation"},
    {"gc", "gc / empty_cache"},
    {"collective", "collectives"},
    {"wrapping", "wrapping"},
    {"optimizer_setup", "optimizer set-up"},
    {"privacy_setup", "privacy engine set-up"},
    {"lora_setup", "LoRA set-up"},
};
static_assert(std::size(kStageWords) == kStages);

// A frame matches where its file holds `file` and its function's last part is `function`, or begins with it where
// `function` ends in '*'. Empty: any. The first rule that matches counts.
struct Rule {
  absl::string_view file, function;
  Stage stage;
};

constexpr Rule kRules[] = {
    {"", "zero_grad", Stage::kZeroGrad},
    {"/torch/optim/", "load_state_dict", Stage::kLoad},
    {"/torch/optim/", "state_dict", Stage::kSave},
    {"/torch/optim/", "", Stage::kOptimizer},
    {"/torch/nn/modules/loss.py", "", Stage::kLoss},
    {"/torch/nn/functional.py", "cross_entropy", Stage::kLoss},
    {"/torch/nn/functional.py", "kl_div", Stage::kLoss},
    {"/torch/nn/functional.py", "binary_cross_entropy*", Stage::kLoss},
    {"/torch/nn/functional.py", "*_loss", Stage::kLoss},
    {"/torch/_tensor.py", "backward", Stage::kBackward},
    {"/torch/autograd/", "backward", Stage::kBackward},
    {"/torch/autograd/", "grad", Stage::kBackward},
    {"/torch/autograd/", "_engine_run_backward", Stage::kBackward},
    {"/torch/utils/data/", "", Stage::kData},
    {"", "_prepare_inputs", Stage::kData},
    {"", "_prepare_input", Stage::kData},
    {"", "send_to_device", Stage::kData},
    {"", "move_data_to_device", Stage::kData},
    {"", "batch_to_device", Stage::kData},
    {"", "transfer_batch_to_device", Stage::kData},
    {"", "collate_fn", Stage::kData},
    {"/torch/nn/init.py", "", Stage::kConstruction},
    {"/torch/nn/modules/module.py", "_apply", Stage::kConstruction},
    {"/torch/nn/modules/module.py", "load_state_dict", Stage::kLoad},
    {"/torch/nn/modules/module.py", "_load_from_state_dict", Stage::kLoad},
    {"/torch/nn/modules/module.py", "state_dict", Stage::kSave},
    {"/torch/serialization.py", "save", Stage::kSave},
    {"/torch/serialization.py", "_save", Stage::kSave},
    {"/torch/serialization.py", "_legacy_save", Stage::kSave},
    {"/torch/serialization.py", "", Stage::kLoad},
    {"/safetensors/", "save*", Stage::kSave},
    {"/safetensors/", "", Stage::kLoad},
    {"", "save_checkpoint", Stage::kSave},
    {"", "save_pretrained", Stage::kSave},
    {"", "load_checkpoint", Stage::kLoad},
    {"/torch/cuda/memory.py", "empty_cache", Stage::kCollection},
    {"/torch/distributed/checkpoint/", "save*", Stage::kSave},
    {"/torch/distributed/checkpoint/", "", Stage::kLoad},
    {"/torch/distributed/distributed_c10d.py", "", Stage::kCollective},
    {"/torch/distributed/_functional_collectives.py", "", Stage::kCollective},
    {"_fsdp_collectives.py", "", Stage::kCollective},
};

// The outermost that matches counts. Of functions of the program the name alone tells.
constexpr Rule kSetUpRules[] = {
    {"/opacus/privacy_engine.py", "make_private*", Stage::kPrivacySetup},
    {"/opacus/grad_sample/", "__init__", Stage::kPrivacySetup},
    {"/opacus/optimizers/", "__init__", Stage::kPrivacySetup},
    {"/torch/nn/parallel/", "__init__", Stage::kWrapping},
    {"/torch/distributed/fsdp/", "__init__", Stage::kWrapping},
    {"/torch/distributed/", "fully_shard", Stage::kWrapping},
    {"/torch/distributed/", "parallelize_module", Stage::kWrapping},
    {"/torch/distributed/", "distribute_module", Stage::kWrapping},
    {"/torch/_dynamo/convert_frame.py", "_compile", Stage::kWrapping},
    {"/torch/_inductor/", "autotune_to_one_config", Stage::kWrapping},
    {"/torch/_inductor/", "benchmark_all_configs", Stage::kWrapping},
    {"/torch/_inductor/", "coordinate_descent_tuning", Stage::kWrapping},
    {"/torch/_inductor/select_algorithm.py", "", Stage::kWrapping},
    {"/triton/runtime/autotuner.py", "_bench", Stage::kWrapping},
    {"/torch/optim/swa_utils.py", "__init__", Stage::kWrapping},
    {"/peft/", "get_peft_model", Stage::kLoraSetup},
    {"/peft/", "add_adapter", Stage::kLoraSetup},
    {"/peft/", "inject_adapter*", Stage::kLoraSetup},
    {"/peft/", "prepare_model_for_kbit_training", Stage::kLoraSetup},
    {"/peft/peft_model.py", "__init__", Stage::kLoraSetup},
    {"/accelerate/", "prepare", Stage::kWrapping},
    {"/accelerate/", "prepare_model", Stage::kWrapping},
    {"/deepspeed/", "initialize", Stage::kWrapping},
    {"/deepspeed/runtime/", "__init__", Stage::kWrapping},
    {"/torch/optim/", "__init__", Stage::kOptimizerSetup},
    {"/bitsandbytes/optim/", "__init__", Stage::kOptimizerSetup},
    {"", "configure_optimizers", Stage::kOptimizerSetup},
    {"", "create_optimizer", Stage::kOptimizerSetup},
    {"", "create_optimizer_and_scheduler", Stage::kOptimizerSetup},
    {"", "from_pretrained", Stage::kConstruction},
    {"", "configure_model", Stage::kConstruction},
    {"", "prepare_data", Stage::kData},
    {"", "prepare_dataset*", Stage::kData},
    {"", "load_data", Stage::kData},
    {"", "load_dataset*", Stage::kData},
    {"", "build_dataset*", Stage::kData},
    {"", "build_dataloader*", Stage::kData},
    {"", "make_dataset*", Stage::kData},
    {"", "make_dataloader*", Stage::kData},
    {"", "get_dataset*", Stage::kData},
    {"", "get_dataloader*", Stage::kData},
    {"", "create_dataset*", Stage::kData},
    {"", "create_dataloader*", Stage::kData},
    {"", "*_dataloader", Stage::kData},
};

absl::string_view LastPart(absl::string_view function) {
  const size_t dot = function.rfind('.');
  return dot == absl::string_view::npos ? function : function.substr(dot + 1);
}

bool MatchesName(absl::string_view pattern, absl::string_view name) {
  if (pattern.empty()) return true;
  if (pattern.front() == '*') return absl::EndsWith(name, pattern.substr(1));
  if (pattern.back() == '*') return absl::StartsWith(name, pattern.substr(0, pattern.size() - 1));
  return pattern == name;
}

bool IsStandardLibrary(absl::string_view file) {
  return absl::StartsWith(file, "<frozen ") ||
         (absl::StrContains(file, "/lib/python3") && !absl::StrContains(file, "-packages/"));
}

bool Evaluates(absl::string_view name) {
  for (const absl::string_view known :
       {"evaluate", "validate", "validation_step", "validation_loop", "evaluation_loop", "eval_step", "test_step",
        "prediction_step", "predict", "evaluation", "eval_epoch", "validate_epoch", "test_epoch", "estimate_loss"}) {
    if (name == known) return true;
  }
  return false;
}

template <size_t kSize>
Stage MatchOf(const Rule (&rules)[kSize], const ResolvedFrame& frame, absl::string_view name) {
  for (const Rule& rule : rules) {
    if (MatchesName(rule.function, name) && absl::StrContains(frame.file, rule.file)) return rule.stage;
  }
  return Stage::kNone;
}

FrameClassification ClassificationOfPython(const ResolvedFrame& frame) {
  FrameClassification classification;
  const absl::string_view name = LastPart(frame.function);
  classification.is_evaluating = Evaluates(name);
  if (frame.nn_module != 0 || name == "_wrapped_call_impl" || name == "_call_impl") {
    classification.is_module_call = true;
    classification.stage = Stage::kForward;
    return classification;
  }
  classification.set_up = MatchOf(kSetUpRules, frame, name);
  if (classification.set_up != Stage::kNone) return classification;
  classification.stage = MatchOf(kRules, frame, name);
  if (classification.stage != Stage::kNone) return classification;
  if (absl::EndsWith(name, "_loss") || name == "loss_fn" || name == "criterion") {
    classification.stage = Stage::kLoss;
  } else if (name == "__init__" && absl::StrContains(frame.function, '.') && !IsStandardLibrary(frame.file)) {
    classification.stage = Stage::kConstruction;
    classification.is_weak = true;
  }
  return classification;
}

FrameClassification ClassificationOfNative(const ResolvedFrame& frame) {
  FrameClassification classification;
  const absl::string_view function = frame.function;
  if (absl::StrContains(function, "autograd::Engine::") || absl::StrContains(function, "AccumulateGrad::apply") ||
      (absl::StrContains(function, "Backward") && absl::StrContains(function, "::apply"))) {
    classification.stage = Stage::kBackward;
  } else if (absl::StrContains(function, "c10d::") || absl::StrContains(frame.module, "libnccl")) {
    classification.stage = Stage::kCollective;
  }
  return classification;
}

std::string Inside(absl::string_view user, Stage stage, absl::string_view word) {
  if (user.empty()) return std::string(word);
  const size_t last = user.rfind(" > ");
  const absl::string_view innermost = last == absl::string_view::npos ? user : user.substr(last + 3);
  const bool is_same =
      absl::EqualsIgnoreCase(innermost, StageName(stage)) || absl::EqualsIgnoreCase(innermost, StageTitle(stage));
  return stage == Stage::kNone || is_same ? std::string(user) : absl::StrCat(user, " > ", word);
}

}  // namespace

absl::string_view StageName(Stage stage) { return kStageWords[static_cast<size_t>(stage)].name; }
absl::string_view StageTitle(Stage stage) { return kStageWords[static_cast<size_t>(stage)].title; }

std::string StagePath(absl::string_view user, Stage stage) { return Inside(user, stage, StageName(stage)); }
std::string StagePathTitle(absl::string_view user, Stage stage) { return Inside(user, stage, StageTitle(stage)); }

FrameClassification ClassificationOf(const ResolvedFrame& frame) {
  if (frame.forward) {
    FrameClassification mark;
    mark.is_mark = true;
    mark.stage = Stage::kBackward;
    return mark;
  }
  return frame.python ? ClassificationOfPython(frame) : ClassificationOfNative(frame);
}

Stage StageOf(const std::vector<FrameClassification>& innermost_first) {
  Stage found = Stage::kNone, weak = Stage::kNone, set_up = Stage::kNone;
  bool evaluates = false;
  for (const FrameClassification& classification : innermost_first) {
    // Whatever ran inside a mark belongs to the backward pass, but for the communication of it, and what is tried out
    // while its code is compiled.
    const bool is_compiling = set_up == Stage::kWrapping;
    if (classification.is_mark && found != Stage::kCollective && !is_compiling) return Stage::kBackward;
    evaluates |= classification.is_evaluating;
    if (classification.set_up != Stage::kNone) set_up = classification.set_up;
    if (classification.stage == Stage::kNone) continue;
    if (classification.is_weak) {
      if (weak == Stage::kNone) weak = classification.stage;
    } else if (found == Stage::kNone) {
      found = classification.stage;
    } else if (classification.stage == Stage::kBackward && (found == Stage::kForward || found == Stage::kLoss)) {
      found = Stage::kBackward;  // a forward pass that runs again inside the backward pass
    }
  }
  if (set_up != Stage::kNone) return set_up;
  if (evaluates && (found == Stage::kForward || found == Stage::kLoss || found == Stage::kNone))
    return Stage::kEvaluation;
  return found != Stage::kNone ? found : weak;
}

Stage StageOf(const std::vector<ResolvedFrame>& frames) {
  std::vector<FrameClassification> classifications;
  classifications.reserve(frames.size());
  for (const ResolvedFrame& frame : frames) classifications.push_back(ClassificationOf(frame));
  return StageOf(classifications);
}

}  // namespace gpumem
