// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// AggregatedStacks: the one aggregation that all views by stack are drawn from: how many bytes in how many allocations
// each stack stands for. Made by AggregateStacks (aggregate.h); frames come from FrameTable (frame_table.h), a tree of
// them from StackTree (stack_tree.h). Plain values.
//
//   const AggregatedStacks aggregated = AggregateStacks(trace, asked, selection);
//   for (const AggregatedStack& stack : aggregated.stacks) Print(stack.bytes, frames.Resolve(stack));

#ifndef GPUMEM_ANALYZER_LEDGER_STACKS_AGGREGATED_STACKS_H_
#define GPUMEM_ANALYZER_LEDGER_STACKS_AGGREGATED_STACKS_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "ledger/stacks/selection.h"

namespace gpumem {

// Bytes and allocations. In the view "average" the bytes are those that were held on average, rounded once a stack;
// sums are of what was rounded. Sums stop at the largest number instead of starting again at 0.
struct Weight {
  uint64_t bytes = 0;
  uint64_t count = 0;

  void Add(const Weight& other) {
    bytes = Sum(bytes, other.bytes);
    count = Sum(count, other.count);
  }
  friend bool operator==(const Weight&, const Weight&) = default;

 private:
  static uint64_t Sum(uint64_t a, uint64_t b) { return a + b < a ? std::numeric_limits<uint64_t>::max() : a + b; }
};

struct AggregatedStack {
  uint64_t stack_id = 0;  // StackTable key; 0 = no stack was recorded
  int device = 0;         // -1: no GPU was stated
  uint32_t thread = 0;    // StackTable::thread; 0 = not known
  uint32_t api = 0;       // StackTable::string, of the function that allocated; 0 where they differ
  uint64_t size = 0;      // of each allocation, where StackSelection::by_size; else 0
  Weight weight;
  uint32_t group = 0;  // for FrameRules::group; entries of different groups stay apart
};

// What a GPU's stacks are the picture of.
struct AggregatedDevice {
  int device = 0;
  ViewMeasure measure = ViewMeasure::kAllocated;  // never kDefault
  // Time of the peak, or of the end in the other views (CLOCK_MONOTONIC, as in Analysis).
  uint64_t time_ns = 0;
  // What the replay says all of it is, before filters by size and age: of the peak, the peak itself. 0 where the view
  // has no such number (total, temporary).
  uint64_t bytes = 0;
};

struct AggregatedStacks {
  ViewMode mode = ViewMode::kPeak;
  std::vector<AggregatedDevice> devices;  // in the order of Analysis::devices
  std::vector<AggregatedStack> stacks;    // most bytes first, then by count, stack, device, thread and size
  std::vector<std::string> user_stages;   // StackSelection::by_user_stage; "train > backward", the first is ""
  Weight all;                             // everything that was selected, `merged` included
  Weight shown;  // of that, what filters by name left (FilterStacks); at first the same as `all`
  // Of entries beyond StackSelection::most_stacks: they were the smallest when room was needed, so the rest are exact
  // or, where a stack came back after it had been merged, a little too small. merged_entries counts how often.
  Weight merged;
  uint64_t merged_entries = 0;

  // Merged stacks have no names that a filter could match.
  bool merged_is_shown() const { return merged_entries > 0 && shown == all; }
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_STACKS_AGGREGATED_STACKS_H_
