// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "answers/explain/checks.h"
#include "answers/oom/oom_story.h"
#include "answers/report/leak_words.h"
#include "answers/report/stack_rows.h"
#include "base/format.h"
#include "ledger/leaks/leaks.h"
#include "ledger/load/ground.h"
#include "ledger/stacks/names.h"
#include "render/cells.h"

namespace gpumem {
namespace {

constexpr uint64_t kPercentOutside = 20;

Check AskOfOom(const char* id, const char* question) {
  return MakeCheck(CheckTopic::kOom, absl::StrCat("oom.", id), question);
}

Check Request(const OomEvent& oom, const ReportInput& input) {
  Check check = AskOfOom("request", "Which request failed, and how much was missing?");
  check.outcome = CheckOutcome::kFound;
  check.evidence = absl::StrCat(WhoAsked(oom), " asked for ", FormatBytes(oom.requested), " at ",
                                FormatTime(input.Since(oom.time_ns)));
  if (!oom.final) {
    absl::StrAppend(&check.evidence, "; it was served after memory had been given back");
    check.outcome = CheckOutcome::kClear;
    return check;
  }
  if (const uint64_t missing = MissingBytes(oom); missing != 0) {
    absl::StrAppend(&check.evidence, "; at most ", FormatBytes(oom.would_have_fit), " would have fit, so ",
                    FormatBytes(missing), " were missing");
  }
  if (oom.device_total != 0 && oom.requested > oom.device_total)
    check.action = "make the request smaller, or split it: it is larger than the device";
  return check;
}

Check Limit(const OomEvent& oom, const ProcessInfo& process) {
  Check check = AskOfOom("limit", "Does the program limit itself?");
  if (oom.layer != kTorchLayer) {
    check.evidence = "the request was not PyTorch's";
    return check;
  }
  check.evidence = "PyTorch asked CUDA, and was refused";
  if (!oom.limited) return check;
  check.outcome = CheckOutcome::kFound;
  check.evidence = absl::StrCat("PyTorch gave up at ", FormatBytes(oom.values.reserved), " reserved while ",
                                FormatBytes(oom.device_free), " were free on the device");
  check.action = absl::StrCat("raise ", NameOfLimit(oom, process));
  check.saving = {SavingBasis::kExact, oom.device_free};
  return check;
}

Check Others(const OomEvent& oom) {
  Check check = AskOfOom("others", "Does something else fill the device?");
  const std::optional<uint64_t> unseen = UnseenBytes(oom);
  if (!unseen) {
    check.outcome = CheckOutcome::kUnknown;
    check.evidence = oom.device_stated ? "the size of the device is not in this trace"
                                       : "the device did not state its free memory behind the failure";
    return check;
  }
  check.evidence = absl::StrCat(FormatBytes(*unseen), " of ", FormatBytes(oom.device_total),
                                " is not CUDA memory of this process, its CUDA context included");
  if (*unseen <= kContextAtMost) return check;
  check.outcome = CheckOutcome::kFound;
  check.action = "see who else uses this GPU (nvidia-smi), and end it or choose another GPU";
  check.saving = {SavingBasis::kAtMost, *unseen - kContextAtMost};
  return check;
}

Check Outside(const OomEvent& oom) {
  Check check = AskOfOom("outside_pytorch", "How much CUDA memory of this process is not PyTorch's?");
  check.evidence = absl::StrCat(FormatBytes(oom.values.other), " of ", FormatBytes(oom.values.total));
  if (oom.layer != kTorchLayer || !HasPercent(oom.values.other, oom.values.total, kPercentOutside)) return check;
  check.outcome = CheckOutcome::kFound;
  check.action = "gpumemshim peak --measure total names who holds it";
  check.saving = {SavingBasis::kAtMost, oom.values.other};
  return check;
}

Check Fragmented(const OomEvent& oom, const WhatIfAnswer* what_if) {
  Check check = AskOfOom("fragmented", "Was enough free inside PyTorch's segments, but not in one piece?");
  if (!oom.described) {
    check.outcome = CheckOutcome::kUnknown;
    check.evidence = "only the last failures are kept in detail: gpumemshim oom --to TIME looks at an earlier one";
    return check;
  }
  const FragmentationPoint& pieces = oom.fragmentation;
  check.evidence =
      absl::StrCat(FormatBytes(pieces.free), " free in ", FormatCountOf(pieces.free_ranges, "range", "ranges"),
                   ", the largest ", FormatBytes(pieces.largest_free_range), "; asked: ", FormatBytes(oom.requested));
  if (pieces.free < oom.requested || pieces.largest_free_range >= oom.requested) return check;
  check.outcome = CheckOutcome::kFound;
  if (oom.expandable_segments) {
    check.action = "expandable segments are on already: allocate blocks of fewer different sizes";
    check.saving = {SavingBasis::kUnknown, 0};
    return check;
  }
  const bool is_replayed = what_if != nullptr && what_if->knows_fit() && what_if->is_exact;
  check.action = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True";
  if (!is_replayed) absl::StrAppend(&check.action, "; gpumemshim replay --try finds out whether it fits");
  const uint64_t fit = oom.fit_expandable.value_or(0);
  const uint64_t more = fit - std::min(fit, oom.would_have_fit);
  const SavingBasis basis_of_estimate = more != 0 ? SavingBasis::kEstimate : SavingBasis::kUnknown;
  check.saving = {is_replayed ? SavingBasis::kReplayed : basis_of_estimate, more};
  return check;
}

Check Grown(const OomEvent& oom, const ReportInput& input) {
  Check check = AskOfOom("growth", "Did memory grow from step to step until the device was full?");
  if (input.leaks == nullptr || input.leaks->loops.empty()) {
    check.outcome = CheckOutcome::kUnknown;
    check.evidence = "too few steps before the failure to judge growth";
    return check;
  }
  check.evidence = LeakHeadline(*input.leaks, oom.device);
  const uint64_t grown = GrowingBytes(input.leaks, oom.device);
  if (grown == 0 && input.leaks->misses_events) check.outcome = CheckOutcome::kUnknown;
  if (grown == 0) return check;
  check.outcome = CheckOutcome::kFound;
  check.action = "a smaller batch only delays it: see the checks of leaks";
  check.saving = {SavingBasis::kExact, grown};
  return check;
}

Check Largest(const OomEvent& oom, const ReportInput& input) {
  Check check = AskOfOom("largest_line", "Which line holds most of what was alive?");
  const std::vector<StackGroup> lines = GroupStacks(oom.live.stacks, input, /*by_stack=*/false);
  const StackGroup* const line = TopLine(lines);
  if (!oom.described || lines.empty() || oom.live.bytes == 0) {
    check.outcome = CheckOutcome::kUnknown;
    check.evidence = "what was alive then is not in this trace";
    return check;
  }
  if (line == nullptr) {
    check.evidence = "libraries' workspaces alone";
    return check;
  }
  check.outcome = CheckOutcome::kFound;
  check.evidence = absl::StrCat(line->view.site, ", ", FormatBytes(line->use.bytes), " (",
                                ShareCell(line->use.bytes, oom.live.bytes), " of what was live) in ",
                                FormatCountOf(line->use.count, "block", "blocks"));
  check.saving = {SavingBasis::kAtMost, line->use.bytes};
  check.action = "gpumemshim oom lists the others";
  return check;
}

}  // namespace

std::vector<Check> OomChecks(const ExplainSubject& subject) {
  const ReportInput& input = *subject.input;
  const OomEvent* const oom = OomToExplain(input.analysis->ooms);
  if (oom == nullptr) {
    Check check = AskOfOom("request", "Did a request for GPU memory fail?");
    check.evidence = "none did";
    if (!GroundOf(*input.analysis).has_failures) {
      check.outcome = CheckOutcome::kUnknown;
      check.evidence = "this file would not say so";
    }
    return {check};
  }
  if (!oom->final) return {Request(*oom, input)};
  std::vector<Check> checks = {Request(*oom, input), Limit(*oom, input.analysis->process), Others(*oom),
                               Outside(*oom),        Fragmented(*oom, subject.what_if),    Grown(*oom, input),
                               Largest(*oom, input)};
  const uint64_t missing = MissingBytes(*oom);
  for (Check& check : checks) {
    if (check.outcome != CheckOutcome::kFound || check.saving.bytes == 0 || missing == 0) continue;
    absl::StrAppend(&check.action, check.saving.bytes >= missing ? "; enough alone" : "; not enough alone");
  }
  return checks;
}

}  // namespace gpumem
