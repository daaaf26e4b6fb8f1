// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/allocator/hindsight.h"

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace gpumem::plan {
namespace {

ReleaseReason OfName(absl::string_view name) {
  if (absl::StrContains(name, "emptyCache") || absl::StrContains(name, "empty_cache"))
    return ReleaseReason::kEmptyCache;
  if (absl::StrContains(name, "CachingAllocator") && absl::StrContains(name, "malloc")) return ReleaseReason::kRequest;
  return ReleaseReason::kUnknown;
}

}  // namespace

ReleaseReason ReleaseReasons::OfFrame(uint32_t id) const {
  const FrameInfo* const frame = names_->frame(id);
  if (frame == nullptr) return ReleaseReason::kUnknown;
  if (frame->pc == 0) {
    const PythonCodeInfo* const code = names_->python_code(frame->python_code);
    return code == nullptr ? ReleaseReason::kUnknown : OfName(code->name);
  }
  const ModuleInfo* const module = names_->ModuleOf(*frame);
  const ModuleSymbols* const symbols = module == nullptr ? nullptr : names_->symbols(module->id);
  if (symbols == nullptr) return ReleaseReason::kUnknown;
  for (const NativeFunction& function : symbols->At(frame->pc - module->load_bias)) {
    if (const ReleaseReason reason = OfName(function.function); reason != ReleaseReason::kUnknown) return reason;
  }
  return ReleaseReason::kUnknown;
}

ReleaseReason ReleaseReasons::Of(uint64_t stack) {
  const auto [known, is_new] = known_.try_emplace(stack, ReleaseReason::kUnknown);
  if (!is_new || stack == 0 || names_ == nullptr) return known->second;
  for (const uint32_t frame : names_->Frames(stack)) {  // innermost first
    known->second = OfFrame(frame);
    if (known->second != ReleaseReason::kUnknown) break;
  }
  return known->second;
}

}  // namespace gpumem::plan
