// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/predict/what_if.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/format.h"
#include "planner/predict/vary.h"

namespace gpumem::plan {
namespace {

struct KindRow {
  const char* name;
  ReductionCost cost;
  const char* text;
  const char* cost_text;
  ChangeUse use = ChangeUse::kTraining;
  const char* needs = "";
};

constexpr char kTimeUnknown[] = "time: unknown";

// By ChangeKind.
constexpr KindRow kRows[kChangeKinds] = {
    {"expandable_segments", ReductionCost::kNothing, "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", "nothing",
     ChangeUse::kAny},
    {"no_grad", ReductionCost::kNothing, "torch.no_grad()", "nothing", ChangeUse::kInference},
    {"fused", ReductionCost::kNothing, "fused=True in the optimizer", "nothing"},
    {"foreach", ReductionCost::kNothing, "foreach=False in the optimizer", "more kernels in the optimizer's step"},
    {"channels_last", ReductionCost::kTime, "convolutions in channels-last", kTimeUnknown, ChangeUse::kAny, "conv2d"},
    {"vae_slicing", ReductionCost::kTime, "the VAE decodes one image after another (enable_slicing)", kTimeUnknown,
     ChangeUse::kInference, "diffusers"},
    {"attention_slicing", ReductionCost::kTime, "attention in slices (set_attention_slice)", kTimeUnknown,
     ChangeUse::kInference, "diffusers"},
    {"chunked_loss", ReductionCost::kRecompute, "loss in 8 chunks", "logits computed twice"},
    {"checkpointing", ReductionCost::kRecompute, "", "these blocks computed twice"},
    {"accumulate", ReductionCost::kPieces, "", "two smaller passes for a step"},
    {"half_batch", ReductionCost::kPieces, "", "twice as many passes; time: unknown", ChangeUse::kInference},
    {"offload", ReductionCost::kTransfers, "saved activations in host memory", ""},
    {"model_offload", ReductionCost::kTransfers, "idle parts in host memory (enable_model_cpu_offload)",
     "each part to the GPU and back; time: unknown", ChangeUse::kInference, "diffusers"},
    {"vae_tiling", ReductionCost::kRounding, "the VAE decodes in tiles (enable_tiling)", kTimeUnknown,
     ChangeUse::kInference, "diffusers"},
    {"bf16_states", ReductionCost::kRounding, "Adam's states in bfloat16", ""},
    {"8bit_states", ReductionCost::kRounding, "Adam's states in 8 bits (as bitsandbytes)", ""},
};

const KindRow& RowOf(ChangeKind kind) { return kRows[static_cast<size_t>(kind)]; }

}  // namespace

bool Choice::Has(ChangeKind kind) const { return std::find(kinds.begin(), kinds.end(), kind) != kinds.end(); }

std::string ChangeName(ChangeKind kind) { return RowOf(kind).name; }

ReductionCost CostOf(ChangeKind kind) { return RowOf(kind).cost; }

ChangeUse UseOf(ChangeKind kind) { return RowOf(kind).use; }

std::string NeedsToMeet(ChangeKind kind) { return RowOf(kind).needs; }

std::optional<BatchPlace> FindBatch(const std::vector<std::string>& command, const std::vector<ChangeReport>& reports) {
  if (const std::optional<BatchFlag> given = FindBatchFlag(command); given.has_value())
    return BatchPlace{given->name, given->value, given};
  for (const ChangeReport& report : reports) {
    if (report.batch > 1) return BatchPlace{report.batch_flag, report.batch, std::nullopt};
  }
  return std::nullopt;
}

std::optional<std::string> ExpandableSetting() {
  for (const char* variable : {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"}) {
    const char* set = std::getenv(variable);
    if (set != nullptr && (absl::StrContains(set, "expandable_segments") || absl::StrContains(set, "backend:")))
      return std::nullopt;
  }
  const char* before = std::getenv("PYTORCH_CUDA_ALLOC_CONF");
  return absl::StrCat(before == nullptr || *before == '\0' ? "" : absl::StrCat(before, ","),
                      "expandable_segments:True");
}

RunRequest WithChanges(RunRequest request, const Choice& choice, const std::optional<BatchPlace>& batch) {
  std::vector<std::string> inside;
  for (const ChangeKind kind : choice.kinds) {
    std::string name = ChangeName(kind);
    if (kind == ChangeKind::kExpandable) {
      request.environment.emplace_back("PYTORCH_CUDA_ALLOC_CONF", ExpandableSetting().value_or(""));
      continue;
    }
    if (kind == ChangeKind::kCheckpointing && choice.blocks > 0) absl::StrAppend(&name, ":", choice.blocks);
    if ((kind == ChangeKind::kAccumulate || kind == ChangeKind::kHalfBatch) && batch.has_value()) {
      absl::StrAppend(&name, ":flag");
      if (batch->given.has_value()) {
        request.command = WithBatch(request.command, *batch->given, batch->value / 2);
      } else {
        request.command.push_back(batch->flag);
        request.command.push_back(absl::StrCat(batch->value / 2));
      }
    }
    inside.push_back(name);
  }
  request.what_if = absl::StrJoin(inside, ",");
  return request;
}

std::string ChangeText(ChangeKind kind, const ChangeReport& report, const std::optional<BatchPlace>& batch) {
  switch (kind) {
    case ChangeKind::kCheckpointing:
      return absl::StrCat("checkpoint ", report.applied, " of ", FormatCountOf(report.of, "block", "blocks"));
    case ChangeKind::kAccumulate:
      return batch.has_value() ? absl::StrCat(batch->flag, " ", batch->value / 2, ", a step after every second batch")
                               : "half the DataLoader's batch, a step after every second one";
    case ChangeKind::kHalfBatch:
      return batch.has_value() ? absl::StrCat(batch->flag, " ", batch->value / 2) : "half the DataLoader's batch";
    default:
      return RowOf(kind).text;
  }
}

std::string CostText(ChangeKind kind, const ChangeReport& report) {
  std::string text = RowOf(kind).cost_text;
  if (kind == ChangeKind::kOffload) text = absl::StrCat(FormatBytes(report.moved), " to the host and back for a step");
  if (const std::string other = OtherResults(kind, report); !other.empty())
    absl::StrAppend(&text, text.empty() ? "" : "; ", "other results: ", other);
  return text;
}

std::string OtherResults(ChangeKind kind, const ChangeReport& report) {
  if (kind == ChangeKind::kBf16States) return "Adam's averages are rounded to bfloat16";
  if (kind == ChangeKind::kEightBitStates) return "Adam's averages are rounded to 8 bits";
  return report.other_results;
}

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
