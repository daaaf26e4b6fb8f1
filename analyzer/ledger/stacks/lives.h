// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// LivesAnalysis: the two replays of a loaded trace in which every piece of memory is shown when its life is over, with
// the same evidence that every other answer about categories and steps stands on. Who derives says what it looks at
// beside the index pass of the first replay, and what it does with the lives of the second. Not thread-safe; the trace
// must outlive it.
//
//   class Rows final : public LivesAnalysis { LabelVisitor* Second(const LifePass::Needs& needs) override; ... };
//   Rows rows(loaded);
//   GPUMEM_RETURN_IF_ERROR(RunAnalyses(*loaded, {&rows}));

#ifndef GPUMEM_ANALYZER_LEDGER_STACKS_LIVES_H_
#define GPUMEM_ANALYZER_LEDGER_STACKS_LIVES_H_

#include <cstdint>
#include <optional>

#include "ledger/attribution/index_pass.h"
#include "ledger/attribution/life_pass.h"
#include "ledger/attribution/two_passes.h"
#include "ledger/load/load_trace.h"

namespace gpumem {

class LivesAnalysis : public TwoPassAnalysis {
 public:
  explicit LivesAnalysis(LoadedTrace* loaded);
  LivesAnalysis(const LivesAnalysis&) = delete;
  LivesAnalysis& operator=(const LivesAnalysis&) = delete;

  uint64_t FirstEnd() const override { return loaded_->analysis.end_ns; }
  LabelVisitor* BeginFirst(const LabelReplay& replay) final;
  uint64_t SecondEnd() const override { return loaded_->analysis.end_ns; }
  LabelVisitor* BeginSecond(const LabelReplay& replay) final;

 protected:
  // A visitor that passes on what it receives to `index_pass`, or that itself.
  virtual LabelVisitor* First(IndexPass* index_pass, const LabelReplay& replay) = 0;
  virtual LabelVisitor* Second(const LifePass::Needs& needs) = 0;

  LoadedTrace* loaded() const { return loaded_; }
  int device() const { return request_.device; }  // whose steps are known
  const StepLog& steps() const { return index_pass_->steps(); }
  StackClassifier* classifier() { return &classifier_; }
  ModuleTable* modules() { return &modules_; }
  UserStages* user_stages() { return &user_stages_; }

 private:
  LoadedTrace* loaded_;
  AttributionRequest request_;
  Rules rules_;
  StackClassifier classifier_;
  ModuleTable modules_;
  UserStages user_stages_;
  std::optional<IndexPass> index_pass_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_STACKS_LIVES_H_
