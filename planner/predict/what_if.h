// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Which changes could save memory: those that --explain tries, how a run is made with some of them, and what each
// saves, run once more with it, or estimated where that cannot be run.

#ifndef GPUMEM_PLANNER_PREDICT_WHAT_IF_H_
#define GPUMEM_PLANNER_PREDICT_WHAT_IF_H_

#include <optional>
#include <string>
#include <vector>

#include "ledger/attribution/attribution.h"
#include "planner/launch/process_result.h"
#include "planner/launch/simulated_run.h"
#include "planner/predict/forecast.h"
#include "planner/predict/planner.h"
#include "planner/predict/vary.h"

namespace gpumem::plan {

// The changes that --explain tries, and how a run is made with some of them.
//
//   Choice choice{{ChangeKind::kChunkedLoss, ChangeKind::kCheckpointing}, 12};
//   RunRequest run = WithChanges(request, choice, batch);
//
// Thread-safety: pure functions, which read the environment.

// The cheapest first. Of a pair of alternatives both may be tried, and one be combined with others.
enum class ChangeKind : uint8_t {
  kExpandable,
  kNoGrad,
  kFused,    // or:
  kForeach,  // foreach=False
  kChannelsLast,
  kVaeSlicing,
  kAttentionSlicing,
  kChunkedLoss,
  kCheckpointing,
  kAccumulate,
  kHalfBatch,
  kOffload,
  kModelOffload,
  kVaeTiling,
  kBf16States,  // or:
  kEightBitStates,
};
inline constexpr size_t kChangeKinds = 16;

// Changes that are made together.
struct Choice {
  std::vector<ChangeKind> kinds;  // ascending
  uint64_t blocks = 0;            // of checkpointing; 0 = all
  bool Has(ChangeKind kind) const;
};

// "expandable_segments", "checkpointing", ...: as changes.py has it.
std::string ChangeName(ChangeKind kind);
ReductionCost CostOf(ChangeKind kind);
// What a change is for: programs that make an optimizer's step, those that make none, or both.
enum class ChangeUse : uint8_t { kAny, kTraining, kInference };
ChangeUse UseOf(ChangeKind kind);
// What of ChangeReport::met a program must have for it to be worth a run; "" = nothing.
std::string NeedsToMeet(ChangeKind kind);

// A batch size in the command line, or an argument's value that is not there ("look" of changes.py).
struct BatchPlace {
  std::string flag;
  int64_t value = 0;
  std::optional<BatchFlag> given;  // none: it is to be added
};
std::optional<BatchPlace> FindBatch(const std::vector<std::string>& command, const std::vector<ChangeReport>& reports);

// The run with these changes. `batch`: what accumulation halves; none: the program's DataLoaders.
RunRequest WithChanges(RunRequest request, const Choice& choice, const std::optional<BatchPlace>& batch);

// PYTORCH_CUDA_ALLOC_CONF with expandable segments; none where it says something of them already.
std::optional<std::string> ExpandableSetting();

// What a reader gets: the text and the cost of a change of which so much was applied.
std::string ChangeText(ChangeKind kind, const ChangeReport& report, const std::optional<BatchPlace>& batch);
std::string CostText(ChangeKind kind, const ChangeReport& report);  // with what OtherResults says
// Why the program computes other numbers with it; "" = the same, but for the order of additions.
std::string OtherResults(ChangeKind kind, const ChangeReport& report);

// The largest savings first, three at most; `run` is the run that they are compared with, `moment` its peak (null
// where nothing tells what it is made of).
std::vector<WhatIf> TryChanges(const RunRequest& request, const PlannedRun& run, const Moment* moment,
                               Planner* planner);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_PREDICT_WHAT_IF_H_
