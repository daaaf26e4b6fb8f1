// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/predict/failure_advice.h"

#include <algorithm>
#include <array>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace gpumem::plan {
namespace {

// What huggingface_hub and transformers (4 and 5) write where a name is neither a folder here nor can be asked for.
constexpr std::array<absl::string_view, 6> kNoHub = {"couldn't connect to 'https://huggingface.co'",
                                                     "LocalEntryNotFoundError",
                                                     "OfflineModeIsEnabled",
                                                     "Cannot reach https://huggingface.co",
                                                     "is not a local folder and is not a valid model identifier",
                                                     "Failed to resolve 'huggingface.co'"};
// A folder with a configuration and no weights.
constexpr std::array<absl::string_view, 3> kNoWeights = {
    "no file named model.safetensors", "no file named pytorch_model.bin", "no file named diffusion_pytorch_model"};
// PyTorch's and Lightning's, where more GPUs are wanted than there are.
constexpr std::array<absl::string_view, 2> kNoDevice = {"invalid device ordinal", "But your machine only has: ["};

template <size_t kCount>
bool HasAny(absl::string_view output, const std::array<absl::string_view, kCount>& texts) {
  return std::any_of(texts.begin(), texts.end(),
                     [&](absl::string_view text) { return absl::StrContains(output, text); });
}

}  // namespace

std::string AdviceOnFailure(absl::string_view output) {
  if (HasAny(output, kNoDevice))
    return "it wants more GPUs than there are in this plan: give their number, --device-count 8.";
  constexpr absl::string_view kFromConfig =
      "a plan needs no weights, only the model's config.json: "
      "AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(FOLDER)) instead of from_pretrained, or the same of "
      "the model's own class.";
  if (HasAny(output, kNoWeights)) return absl::StrCat("the folder has no weights. ", kFromConfig);
  if (HasAny(output, kNoHub))
    return absl::StrCat("what it asks of the hub is not here, and the hub cannot be reached. ", kFromConfig);
  return "";
}

}  // namespace gpumem::plan
