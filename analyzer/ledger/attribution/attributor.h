// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Attributor: memory by category (attribution.h), found in two replays, which it may share with other analyses
// (two_passes.h has the example). The one entry point of attribution/ for loading/. Not thread-safe; what it is given
// must outlive it.

#ifndef GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_ATTRIBUTOR_H_
#define GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_ATTRIBUTOR_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "ledger/attribution/attribution.h"
#include "ledger/attribution/attribution_pass.h"
#include "ledger/attribution/index_pass.h"
#include "ledger/attribution/two_passes.h"
#include "ledger/attribution/user_stages.h"

namespace gpumem {

class Attributor final : public TwoPassAnalysis {
 public:
  Attributor(const Analysis* analysis, const StackTable* stacks, const FrameResolver& resolve, const Rules* rules,
             AttributionRequest request);
  Attributor(const Attributor&) = delete;
  Attributor& operator=(const Attributor&) = delete;

  uint64_t FirstEnd() const override { return analysis_->end_ns; }
  LabelVisitor* BeginFirst(const LabelReplay& replay) override;
  void EndFirst(const LabelReplay& replay) override;
  uint64_t SecondEnd() const override;
  LabelVisitor* BeginSecond(const LabelReplay& replay) override;
  void EndSecond() override;

  // Once, after both replays.
  Attribution Take() { return std::move(result_); }

 private:
  void FindMoments();
  uint64_t LastMoment() const;
  std::vector<uint64_t> Events() const;

  const Analysis* analysis_;
  const StackTable* stacks_;
  const AttributionRequest request_;
  const uint32_t slot_;
  StackClassifier classifier_;
  ModuleTable modules_;
  UserStages user_stages_;
  std::optional<IndexPass> index_pass_;
  std::optional<AttributionPass> attribution_pass_;
  std::vector<Step> steps_;
  Attribution result_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_ATTRIBUTOR_H_
