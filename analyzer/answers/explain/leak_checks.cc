// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "answers/explain/checks.h"
#include "answers/report/leak_words.h"
#include "answers/report/reserve_causes.h"
#include "answers/report/verdict.h"
#include "base/format.h"
#include "ledger/leaks/leaks.h"
#include "trace/import_info.h"

namespace gpumem {
namespace {

constexpr uint64_t kPercentOfReserved = 5;  // that a remedy is to save

constexpr uint64_t kLeastSurvivors = uint64_t{1} << 20;

Check AskOfLeak(const char* id, const char* question) {
  return MakeCheck(CheckTopic::kLeak, absl::StrCat("leak.", id), question);
}

// Growth of some kinds, on the device or of none: the worst row, and how many others there are.
Check Growth(const char* id, const char* question, const std::vector<LeakKind>& kinds, const ExplainSubject& subject,
             bool of_host = false) {
  Check check = AskOfLeak(id, question);
  const LeakFindings& findings = *subject.input->leaks;
  if (findings.loops.empty()) {
    check.outcome = CheckOutcome::kUnknown;
    check.evidence = "nothing repeats often enough to judge growth: record more steps";
    return check;
  }
  const LeakDevice* const device = LeaksOf(findings, of_host ? kHostDevice : subject.device->device);
  const LeakRow* worst = nullptr;
  uint64_t others = 0;
  double rate = 0;
  for (size_t i = 0; device != nullptr && i < device->rows.size(); ++i) {
    const LeakRow& row = device->rows[i];
    if (!absl::c_linear_search(kinds, row.kind) || row.status != LeakStatus::kGrowing) continue;
    rate += row.bytes_per_iteration;
    worst == nullptr ? void(worst = &row) : void(++others);
  }
  if (worst == nullptr && findings.misses_events) {
    check.outcome = CheckOutcome::kUnknown;
    check.evidence = "events are missing from the trace";
    return check;
  }
  if (worst == nullptr) {
    check.evidence = absl::StrCat("nothing of the kind grows, ", LoopText(findings.loops[0], *subject.input));
    return check;
  }
  check.outcome = CheckOutcome::kFound;
  check.evidence = absl::StrCat(LeakSite(*worst), ": ", RateText(worst->bytes_per_iteration), " a ",
                                IterationWord(findings, *worst), ", ", FormatBytes(worst->grown_bytes), " so far");
  if (others != 0)
    absl::StrAppend(&check.evidence, "; ", FormatCountOf(others, "other line grows", "other lines grow"));
  check.action = LeakRemark(*worst, findings);
  if (kinds.front() == LeakKind::kAllocator) {
    const std::vector<ReserveRemedy> remedies = Remedies(*subject.device, *subject.input, kPercentOfReserved);
    if (!remedies.empty()) check.action = remedies.front().text;
  }
  if (check.action.empty())
    check.action =
        "find what keeps it: gpumemshim ctl tensors PID names the objects that hold a tensor, in a running program";
  check.saving = {SavingBasis::kExact, static_cast<uint64_t>(std::llround(rate)), true};
  check.is_minor = of_host ? !HostGrowsEnough(*subject.input) : !GrowsEnough(*subject.input, *subject.device);
  if (check.is_minor) absl::StrAppend(&check.evidence, "; too little for a verdict");
  return check;
}

Check Stopped(const ExplainSubject& subject) {
  Check check = AskOfLeak("settled", "What grew and stopped, and so is not a leak?");
  const LeakDevice* const device = LeaksOf(*subject.input->leaks, subject.device->device);
  uint64_t bytes = 0, rows = 0;
  for (size_t i = 0; device != nullptr && i < device->rows.size(); ++i) {
    const LeakRow& row = device->rows[i];
    if (row.status == LeakStatus::kGrowing || row.status == LeakStatus::kFlat) continue;
    bytes += row.grown_bytes;
    ++rows;
  }
  check.evidence = rows == 0 ? "nothing"
                             : absl::StrCat(FormatBytes(bytes), " of ", FormatCountOf(rows, "line", "lines"),
                                            ": optimizer state, caches and workspaces that were made once");
  return check;
}

Check Survivors(const ExplainSubject& subject) {
  Check check = AskOfLeak("survivors", "What was alive when the program's own code ended?");
  const Analysis& analysis = *subject.input->analysis;
  const LiveSet& alive = subject.device->leaks.at_end_torch;
  if (!analysis.complete || analysis.snapshot || ImportInfoOf(analysis.process.settings).any()) {
    check.outcome = CheckOutcome::kUnknown;
    check.evidence = "the program had not ended when this record did, as far as it tells";
    return check;
  }
  check.evidence = absl::StrCat(FormatBytes(alive.bytes), " in ", FormatCountOf(alive.block_count, "block", "blocks"));
  absl::StrAppend(&check.evidence, MostText(alive.stacks, *subject.input));
  return check;
}

Check Pinned(const Analysis& analysis) {
  Check check = AskOfLeak("pinned", "Was pinned host memory kept to the end?");
  check.evidence = absl::StrCat(FormatBytes(analysis.host_pinned_end), " at the end, ",
                                FormatBytes(analysis.host_pinned_peak), " at most");
  if (analysis.host_pinned_end < kLeastSurvivors || analysis.host_pinned_end < analysis.host_pinned_peak / 2)
    return check;
  check.outcome = CheckOutcome::kFound;
  check.action = "it is host memory: PyTorch caches it for data loaders and offloading";
  return check;
}

Check Cycles() {
  Check check = AskOfLeak("references", "Which Python objects hold the tensors?");
  check.outcome = CheckOutcome::kUnknown;
  check.evidence = "a trace does not hold the program's objects";
  check.action = "gpumemshim ctl tensors PID, while the program runs: the chain of references from a root";
  return check;
}

}  // namespace

std::vector<Check> LeakChecks(const ExplainSubject& subject) {
  if (subject.device == nullptr || subject.input->leaks == nullptr) {
    Check check = AskOfLeak("tensors", "Does any line keep more memory from step to step?");
    check.outcome = CheckOutcome::kUnknown;
    check.evidence = "there is no GPU memory in this trace";
    return {check};
  }
  if (subject.input->leaks->loops.empty())
    return {Growth("tensors", "Does any line keep more memory from step to step?", {LeakKind::kMemory}, subject),
            Survivors(subject), Pinned(*subject.input->analysis)};
  std::vector<Check> checks = {
      Growth("tensors", "Does any line keep more memory from step to step?", {LeakKind::kMemory}, subject),
      Growth("graphs", "Is a growing number of autograd graphs kept alive?", {LeakKind::kGraph}, subject),
      Growth("outside_pytorch", "Does CUDA memory outside of PyTorch grow?", {LeakKind::kOutside, LeakKind::kDriver},
             subject),
      Growth("host", "Does pinned or managed memory grow?", {LeakKind::kHost, LeakKind::kManaged}, subject,
             /*of_host=*/true),
      Growth("reserved", "Does PyTorch reserve more and more beyond what is allocated?", {LeakKind::kAllocator},
             subject),
      Stopped(subject),
      Survivors(subject),
      Pinned(*subject.input->analysis)};
  const bool grows = std::any_of(checks.begin(), checks.end(), [](const Check& check) {
    return check.outcome == CheckOutcome::kFound && check.saving.per_iteration;
  });
  if (grows) checks.push_back(Cycles());
  return checks;
}

}  // namespace gpumem
