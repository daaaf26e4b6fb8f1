// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ChosenRanks: GPUMEMSHIM_RANKS, which ranks of a job are recorded in full: "0,7,16-23,rand:8". Those of "rand" are
// chosen from the others by a hash of the job's id and its world size, so that all ranks come to the same choice
// without speaking to each other.
//
// Thread-safety: a plain value. Failure: Parse is false, and nothing is chosen.
//
//   ChosenRanks chosen;
//   if (chosen.Parse("0,rand:8") && !chosen.Has(facts.rank, facts.world_size, facts.job)) ...

#ifndef GPUMEM_SHIM_SETTINGS_CHOSEN_RANKS_H_
#define GPUMEM_SHIM_SETTINGS_CHOSEN_RANKS_H_

#include <cstddef>
#include <cstdint>

namespace gpumemshim::control {

class ChosenRanks {
 public:
  static constexpr size_t kMaxSpans = 64;
  static constexpr int64_t kMaxRank = 9'999'999;

  bool Parse(const char* text);

  // Where the world size is not known (-1), "rand" chooses every rank: too much is better than nothing.
  bool Has(int64_t rank, int64_t world_size, const char* job) const;

 private:
  struct Span {
    int64_t first, last;
  };

  bool IsNamed(int64_t rank) const;

  Span spans_[kMaxSpans] = {};
  size_t count_ = 0;
  int64_t random_ = 0;
};

}  // namespace gpumemshim::control

#endif  // GPUMEM_SHIM_SETTINGS_CHOSEN_RANKS_H_
