// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/predict/what_if.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "planner/predict/change_kinds.h"
#include "planner/predict/vary.h"

namespace gpumem::plan {
namespace {

constexpr size_t kMaxShown = 3;
constexpr double kLeastShareWorthALine = 0.005;  // of the need: what saves less is not worth a line

uint64_t Saving(const WhatIf& what_if, uint64_t need) {
  if (what_if.peaks.has_value()) return need - std::min(need, what_if.peaks->process);
  return what_if.saves.value_or(0);
}

class Changes {
 public:
  Changes(const RunRequest& request, const PlannedRun& run, Planner* planner)
      : request_(request), need_(run.processes.front().peaks.process), planner_(planner) {}

  void Try(const std::string& name, const RunRequest& changed, bool only_where_it_applied = false) {
    absl::StatusOr<PlannedRun> run = planner_->RunAgain(changed, name);
    if (!run.ok() || !run->answered() || IsCutShort(run->end)) return;
    const PlannedProcess& process = run->processes.front();
    const std::vector<ChangeReport>& reports = process.reported.changes;
    if (only_where_it_applied && (reports.empty() || reports.front().applied == 0)) return;
    Add({name, process.peaks, std::nullopt, ""});
  }

  void Estimate(const std::string& name, uint64_t saves, const std::string& note) {
    Add({name, std::nullopt, saves, absl::StrCat("estimate: ", note)});
  }

  const RunRequest& request() const { return request_; }
  std::vector<WhatIf> Best() {
    std::stable_sort(found_.begin(), found_.end(),
                     [&](const WhatIf& a, const WhatIf& b) { return Saving(a, need_) > Saving(b, need_); });
    if (found_.size() > kMaxShown) found_.resize(kMaxShown);
    return std::move(found_);
  }

 private:
  void Add(WhatIf what_if) {
    if (static_cast<double>(Saving(what_if, need_)) >= kLeastShareWorthALine * static_cast<double>(need_))
      found_.push_back(std::move(what_if));
  }

  const RunRequest& request_;
  const uint64_t need_;
  Planner* const planner_;
  std::vector<WhatIf> found_;
};

void TryBatch(Changes* changes) {
  const std::optional<BatchFlag> batch = FindBatchFlag(changes->request().command);
  if (!batch.has_value()) return;
  RunRequest half = changes->request();
  half.command = WithBatch(half.command, *batch, batch->value / 2);
  changes->Try(absl::StrCat(batch->name, " ", batch->value / 2, " instead of ", batch->value), half);
}

void TryExpandable(Changes* changes) {
  const std::optional<std::string> value = ExpandableSetting();
  if (!value.has_value()) return;
  changes->Try(absl::StrCat("PYTORCH_CUDA_ALLOC_CONF=", *value),
               WithChanges(changes->request(), {{ChangeKind::kExpandable}, 0}, std::nullopt));
}

void TryInside(ChangeKind kind, const char* name, Changes* changes) {
  changes->Try(name, WithChanges(changes->request(), {{kind}, 0}, std::nullopt), true);
}

}  // namespace

std::vector<WhatIf> TryChanges(const RunRequest& request, const PlannedRun& run, const Moment* moment,
                               Planner* planner) {
  Changes changes(request, run, planner);
  const bool trains = run.processes.front().reported.steps > 0;
  TryBatch(&changes);
  TryExpandable(&changes);
  if (trains) {
    TryInside(ChangeKind::kForeach, "foreach=False in the optimizer", &changes);
    TryInside(ChangeKind::kCheckpointing, "gradient checkpointing of all blocks", &changes);
  }
  if (trains && moment != nullptr) {
    const uint64_t states = moment->categories[static_cast<size_t>(Category::kOptimizerState)];
    changes.Estimate("an 8-bit optimizer", states / 4 * 3, "a quarter of the optimizer state");
  }
  return changes.Best();
}

}  // namespace gpumem::plan
