// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What a byte is for, and how that is known. Names are those of the JSON answers (docs/json.md). Pure functions.
//
//   CategoryName(Category::kOptimizerState)   // "optimizer_state"

#ifndef GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_CATEGORY_H_
#define GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_CATEGORY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace gpumem {

enum class Category : uint8_t {
  kParameter,
  kBuffer,
  kGradient,
  kOptimizerState,
  kActivation,  // autograd keeps it for the backward pass
  kTemporary,
  kInput,
  kWorkspace,      // of cuBLAS, cuDNN
  kCommunication,  // NCCL, buckets of gradients
  kKvCache,
  kKept,  // held for two steps or iterations, and nothing above
  kGraphPool,
  kAllocatorOverhead,  // PyTorch's segments beyond the blocks in use
  kContext,
  kLibrary,  // CUDA memory outside of PyTorch's allocator
  kUnknown,
};
inline constexpr size_t kCategories = static_cast<size_t>(Category::kUnknown) + 1;
using CategoryBytes = std::array<uint64_t, kCategories>;

// What is distinguished within a category.
enum class Part : uint8_t {
  kWhole,      // nothing
  kTrainable,  // of parameters: those that want a gradient
  kFrozen,
  kPerSample,  // of gradients: one for each sample of a batch, as differential privacy needs them
};
inline constexpr size_t kParts = static_cast<size_t>(Part::kPerSample) + 1;

// The best evidence comes first.
enum class Evidence : uint8_t {
  kMeasured,  // totals of the allocator and the device
  kAddress,   // a tensor of the program lay there
  kAutograd,  // autograd said that it keeps it
  kStack,     // from the same place, and as large, as what addresses told at other steps
  kRule,      // by names in its stack, by its stage and the length of its life
  kStated,    // of an import: whoever recorded it says so
  kNone,      // nothing: what it is for is not known
};
inline constexpr size_t kEvidences = static_cast<size_t>(Evidence::kNone) + 1;

absl::string_view CategoryName(Category category);   // "optimizer_state"
absl::string_view CategoryTitle(Category category);  // "optimizer state"
absl::string_view PartName(Part part);               // "per_sample"
absl::string_view PartTitle(Part part);              // "one for each sample"
Category CategoryOf(Part part);                      // a part's whole
absl::string_view EvidenceName(Evidence evidence);   // "address"
std::optional<Category> CategoryNamed(absl::string_view name);

inline constexpr size_t Index(Category category) { return static_cast<size_t>(category); }
inline constexpr size_t Index(Part part) { return static_cast<size_t>(part); }
inline constexpr size_t Index(Evidence evidence) { return static_cast<size_t>(evidence); }

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_CATEGORY_H_
