// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// LeakFinder: what grows (leaks.h), found in two replays, which it may share with other analyses
// (ledger/attribution/two_passes.h has the example). Not thread-safe; what it is given must outlive it.

#ifndef GPUMEM_ANALYZER_LEDGER_LEAKS_LEAK_FINDER_H_
#define GPUMEM_ANALYZER_LEDGER_LEAKS_LEAK_FINDER_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "ledger/attribution/iteration_counter.h"
#include "ledger/attribution/rules.h"
#include "ledger/attribution/stack_classification.h"
#include "ledger/attribution/two_passes.h"
#include "ledger/leaks/leaks.h"
#include "ledger/leaks/survival_pass.h"

namespace gpumem {

class LeakFinder final : public TwoPassAnalysis {
 public:
  LeakFinder(const Analysis* analysis, const StackTable* stacks, const FrameResolver& resolve, PlaceOfStack place_of,
             LeakRequest request);
  LeakFinder(const LeakFinder&) = delete;
  LeakFinder& operator=(const LeakFinder&) = delete;

  uint64_t FirstEnd() const override { return std::min(analysis_->end_ns, request_.to_ns); }
  LabelVisitor* BeginFirst(const LabelReplay& replay) override;
  void EndFirst(const LabelReplay& replay) override;
  uint64_t SecondEnd() const override { return std::min(EndOfProgram(*analysis_), request_.to_ns); }
  LabelVisitor* BeginSecond(const LabelReplay& replay) override;
  void EndSecond() override;

  // Once, after the replays.
  LeakFindings Take() { return std::move(findings_); }

 private:
  bool MakesAModel(const LeakRow& row);
  std::vector<LeakLoop> DescribeLoops() const;

  const Analysis* analysis_;
  const PlaceOfStack place_of_;
  const LeakRequest request_;
  const Rules rules_;
  StackClassifier classifier_;
  std::optional<IterationCounter> counter_;
  std::vector<Loop> loops_;
  std::optional<SurvivalPass> survival_pass_;
  LeakFindings findings_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_LEAKS_LEAK_FINDER_H_
