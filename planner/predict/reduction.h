// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What `gpumemshim plan --explain` found out: changes that save memory, each measured by a run of the program with it,
// what they cost, and the cheapest ones that bring the program down to a goal. Plain values; sizes are bytes.
//
//   forecast.explanation->to_fit->text   // "checkpoint 5 of 12 blocks + chunked loss"

#ifndef GPUMEM_PLANNER_PREDICT_REDUCTION_H_
#define GPUMEM_PLANNER_PREDICT_REDUCTION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gpumem::plan {

// What a change costs, the cheapest first.
enum class ReductionCost : uint8_t {
  kNothing,
  kRecompute,  // something is computed twice
  kPieces,     // smaller pieces, which use a GPU less well
  kTransfers,  // to the host and back
  kRounding,   // other numbers
};

// One change, or several together.
struct Reduction {
  std::vector<std::string> changes;  // names of changes.py with their arguments, and "expandable_segments"
  std::string text;                  // "checkpoint 5 of 12 blocks + chunked loss"
  ReductionCost cost = ReductionCost::kNothing;
  std::string cost_text;         // "logits computed twice", "other results: ..."
  std::string other_results;     // why the program computes other numbers with it; "" = the same, but for rounding
  uint64_t applied = 0, of = 0;  // places, such as optimizers or blocks
  std::string why;               // not to all of them; or why there is no number
  std::optional<uint64_t> need;  // as RunPeaks::need; none: it did not apply, or failed
};

struct Explanation {
  uint64_t goal = 0;                    // what the device may give
  uint64_t need = 0;                    // of the program as it is
  uint64_t room = 0;                    // what is open in the forecast may add so much to each need
  std::vector<Reduction> ways;          // single changes that save something, the cheapest first
  std::vector<Reduction> without_use;   // applied, and save next to nothing by themselves
  std::vector<Reduction> not_possible;  // with the reason
  std::optional<Reduction> to_fit;      // the cheapest that were found to reach the goal; none where it is reached
  std::optional<Reduction> least;       // where nothing reaches it: all of them together
  int runs = 0, max_runs = 0;
  bool reached() const { return need + room <= goal; }
};

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_PREDICT_REDUCTION_H_
