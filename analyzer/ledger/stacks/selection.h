// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// StackSelection: which allocations a view by stack is made of. Plain values; ledger/stacks/aggregate.h applies them.
//
// The five views, of each GPU by itself:
//   peak       what was alive when memory was highest
//   leaks      what was allocated at or after --from and is still alive at --to (the end)
//   total      everything that was allocated between --from and --to, freed or not
//   temporary  of that, what was freed after at most `temporary_threshold` others: allocations of the same sort
//              (PyTorch's blocks, or CUDA's memory) by the same thread on the same GPU between the two calls
//   average    bytes x lifetime between --from and --to, divided by the time between them: what was held on average.
//              What was allocated before --from counts from there on

#ifndef GPUMEM_ANALYZER_LEDGER_STACKS_SELECTION_H_
#define GPUMEM_ANALYZER_LEDGER_STACKS_SELECTION_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace gpumem {

enum class ViewMode : uint8_t { kPeak, kLeaks, kTotal, kTemporary, kAverage };

absl::string_view ViewModeName(ViewMode mode);  // "peak"

// Which memory counts. A PyTorch block lies inside a segment, so no choice has both. From kPinned on it is no
// GPU's: of the whole process, and in none of the others.
enum class ViewMeasure : uint8_t {
  kDefault,    // peak: allocated, or total on a GPU where PyTorch did nothing; the other views: held
  kAllocated,  // PyTorch's blocks
  kReserved,   // PyTorch's segments
  kTotal,      // all CUDA memory: segments and the rest
  kHeld,       // what the program itself asked for: PyTorch's blocks, and CUDA memory that is not a segment
  kPinned,     // pinned host memory
  kManaged,    // managed memory, wherever it lies
  kImported,   // memory of other owners
};

absl::string_view ViewMeasureName(ViewMeasure measure);  // "allocated"; "default" for kDefault
absl::string_view ViewMeasureText(ViewMeasure measure);  // for people: "PyTorch's blocks"
inline bool IsOfProcess(ViewMeasure measure) { return measure >= ViewMeasure::kPinned; }

// In place of a GPU's number where IsOfProcess.
inline constexpr int kProcess = -1;

struct StackSelection {
  ViewMode mode = ViewMode::kPeak;
  ViewMeasure measure = ViewMeasure::kDefault;  // kHeld is not possible for the peak: no series has it
  uint64_t temporary_threshold = 1;
  std::optional<int> device;  // only this one of those that were analyzed
  // Of one allocation, both ends included. The age is the time from the allocation to the view's instant (peak, leaks),
  // or to its free (total, temporary; where it was not freed, to the end).
  uint64_t min_bytes = 0, max_bytes = UINT64_MAX;
  uint64_t min_age_ns = 0, max_age_ns = UINT64_MAX;
  // Allocations of one stack stay apart where their sizes differ (AggregatedStack::size).
  bool by_size = false;
  // And where the stages differ that the program named: AggregatedStack::group, a place in
  // AggregatedStacks::user_stages.
  bool by_user_stage = false;
  // Most entries that are kept; more are merged, the smallest first (AggregatedStacks::merged).
  size_t most_stacks = size_t{1} << 20;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_STACKS_SELECTION_H_
