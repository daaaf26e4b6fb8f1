// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/attribution/step_ends.h"

#include <algorithm>
#include <cstddef>

#include "absl/container/flat_hash_map.h"

namespace gpumem {
namespace {

class Finder {
 public:
  explicit Finder(const std::vector<uint32_t>& optimizers) : optimizers_(optimizers), ends_(optimizers.size()) {
    for (size_t i = 0; i < optimizers.size(); ++i) last_[optimizers[i]] = i;
  }

  std::vector<bool> Find() {
    size_t before = 0;  // first step of what came before the training that is looked at
    bool has_before = false;
    for (size_t begin = 0; begin < optimizers_.size();) {
      const Training training = TrainingFrom(begin);
      // Inner loops of the first step of all come before the optimizer that has them between its other steps.
      if (has_before && begin - before <= training.most_between)
        std::fill(ends_.begin() + static_cast<std::ptrdiff_t>(before),
                  ends_.begin() + static_cast<std::ptrdiff_t>(begin), false);
      for (size_t i = begin; i <= training.last; ++i) ends_[i] = optimizers_[i] == training.leader;
      before = begin;
      has_before = true;
      begin = training.last + 1;
      // What its next step would have had: of others that take turns with it, or of all to the end.
      if (training.end - begin <= training.most_between) begin = training.end;
      if (optimizers_.size() - begin <= training.most_between) break;
    }
    return std::move(ends_);
  }

 private:
  struct Training {
    uint32_t leader = 0;
    size_t last = 0;          // step of the leader
    size_t end = 0;           // behind the last step of all that take turns with it
    size_t most_between = 0;  // steps of others between two of the leader's
  };
  struct Span {
    size_t first = 0, last = 0, most_between = 0;
  };

  // Optimizers that take turns from `begin` on; their leader is the first of those that stay for half of it.
  Training TrainingFrom(size_t begin) const {
    absl::flat_hash_map<uint32_t, Span> spans;
    Training training;
    training.end = begin + 1;
    for (size_t i = begin; i < training.end; ++i) {
      const auto [span, is_new] = spans.try_emplace(optimizers_[i], Span{i, i, 0});
      if (!is_new) span->second.most_between = std::max(span->second.most_between, i - span->second.last - 1);
      span->second.last = i;
      training.end = std::max(training.end, last_.at(optimizers_[i]) + 1);
    }
    size_t longest = 0;
    for (const auto& [optimizer, span] : spans) longest = std::max(longest, span.last - span.first);
    const Span* leader = nullptr;
    for (const auto& [optimizer, span] : spans) {
      if (2 * (span.last - span.first) < longest || (leader != nullptr && leader->first < span.first)) continue;
      leader = &span;
    }
    training.leader = optimizers_[leader->first];
    training.last = leader->last;
    training.most_between = leader->most_between;
    return training;
  }

  const std::vector<uint32_t>& optimizers_;
  absl::flat_hash_map<uint32_t, size_t> last_;  // step of each
  std::vector<bool> ends_;
};

}  // namespace

std::vector<bool> StepEnds(const std::vector<uint32_t>& optimizers) { return Finder(optimizers).Find(); }

}  // namespace gpumem
