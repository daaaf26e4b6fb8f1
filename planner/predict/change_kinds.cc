// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/predict/change_kinds.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/format.h"

namespace gpumem::plan {
namespace {

struct KindRow {
  const char* name;
  ReductionCost cost;
  const char* text;
  const char* cost_text;
};

// By ChangeKind.
constexpr KindRow kRows[kChangeKinds] = {
    {"expandable_segments", ReductionCost::kNothing, "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", "nothing"},
    {"fused", ReductionCost::kNothing, "fused=True in the optimizer", "nothing"},
    {"foreach", ReductionCost::kNothing, "foreach=False in the optimizer", "more kernels in the optimizer's step"},
    {"chunked_loss", ReductionCost::kRecompute, "loss in 8 chunks", "logits computed twice"},
    {"checkpointing", ReductionCost::kRecompute, "", "these blocks computed twice"},
    {"accumulate", ReductionCost::kPieces, "", "two smaller passes for a step"},
    {"offload", ReductionCost::kTransfers, "saved activations in host memory", ""},
    {"bf16_states", ReductionCost::kRounding, "Adam's states in bfloat16", ""},
    {"8bit_states", ReductionCost::kRounding, "Adam's states in 8 bits (as bitsandbytes)", ""},
};

const KindRow& RowOf(ChangeKind kind) { return kRows[static_cast<size_t>(kind)]; }

}  // namespace

bool Choice::Has(ChangeKind kind) const { return std::find(kinds.begin(), kinds.end(), kind) != kinds.end(); }

std::string ChangeName(ChangeKind kind) { return RowOf(kind).name; }

ReductionCost CostOf(ChangeKind kind) { return RowOf(kind).cost; }

bool IsOfTraining(ChangeKind kind) { return kind != ChangeKind::kExpandable; }

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
    if (kind == ChangeKind::kAccumulate && batch.has_value()) {
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

}  // namespace gpumem::plan
