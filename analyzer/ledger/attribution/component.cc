// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/attribution/component.h"

namespace gpumem {
namespace {

// Of memory that is not a module's.
absl::string_view Served(Category category, Stage stage) {
  switch (category) {
    case Category::kInput:
    case Category::kWorkspace:
    case Category::kCommunication:
    case Category::kKvCache:
    case Category::kGraphPool:
    case Category::kAllocatorOverhead:
    case Category::kContext:
    case Category::kLibrary:
      return CategoryName(category);
    case Category::kOptimizerState:
      return "optimizer";
    default:
      break;
  }
  if (stage == Stage::kOptimizer || stage == Stage::kOptimizerSetup || stage == Stage::kZeroGrad) return "optimizer";
  if (stage == Stage::kCollective) return CategoryName(Category::kCommunication);
  return stage == Stage::kData ? CategoryName(Category::kInput) : kOtherComponent;
}

}  // namespace

absl::string_view ComponentOf(absl::string_view of_module, bool is_loss, Category category, Stage stage) {
  const bool is_none = of_module.empty() || of_module == kOtherComponent;
  if (is_loss && (is_none || of_module == kRootComponent || of_module == kBlockComponent)) return kLossComponent;
  return is_none ? Served(category, stage) : of_module;
}

}  // namespace gpumem
