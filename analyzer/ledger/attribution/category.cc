// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/attribution/category.h"

#include <iterator>

namespace gpumem {
namespace {

struct CategoryWords {
  absl::string_view name, title;
};

constexpr CategoryWords kCategoryWords[] = {
    {"parameter", "parameters"},
    {"buffer", "buffers"},
    {"gradient", "gradients"},
    {"optimizer_state", "optimizer state"},
    {"activation", "activations"},
    {"temporary", "temporaries"},
    {"input", "inputs"},
    {"workspace", "workspaces"},
    {"communication", "communication"},
    {"kv_cache", "KV cache"},
    {"kept", "kept tensors"},
    {"graph_pool", "CUDA graph pool"},
    {"allocator_overhead", "allocator overhead"},
    {"context", "CUDA context"},
    {"library", "other libraries"},
    {"unknown", "unknown"},
};
static_assert(std::size(kCategoryWords) == kCategories);

constexpr CategoryWords kPartWords[] = {
    {"", ""}, {"trainable", "trainable"}, {"frozen", "frozen"}, {"per_sample", "one for each sample"}};
static_assert(std::size(kPartWords) == kParts);

constexpr absl::string_view kEvidenceNames[] = {"measured", "address", "autograd", "stack", "rule", "stated", "none"};
static_assert(std::size(kEvidenceNames) == kEvidences);

}  // namespace

absl::string_view CategoryName(Category category) { return kCategoryWords[Index(category)].name; }
absl::string_view CategoryTitle(Category category) { return kCategoryWords[Index(category)].title; }
absl::string_view PartName(Part part) { return kPartWords[Index(part)].name; }
absl::string_view PartTitle(Part part) { return kPartWords[Index(part)].title; }
Category CategoryOf(Part part) {
  switch (part) {
    case Part::kTrainable:
    case Part::kFrozen:
      return Category::kParameter;
    case Part::kPerSample:
      return Category::kGradient;
    case Part::kWhole:
      break;
  }
  return Category::kUnknown;
}
absl::string_view EvidenceName(Evidence evidence) { return kEvidenceNames[Index(evidence)]; }

std::optional<Category> CategoryNamed(absl::string_view name) {
  for (size_t i = 0; i < kCategories; ++i) {
    if (kCategoryWords[i].name == name) return static_cast<Category>(i);
  }
  return std::nullopt;
}

}  // namespace gpumem
