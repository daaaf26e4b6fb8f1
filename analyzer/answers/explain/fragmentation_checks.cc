// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "answers/explain/checks.h"
#include "answers/parts/pin_lines.h"
#include "answers/report/reserve_causes.h"
#include "answers/report/verdict.h"
#include "base/format.h"
#include "ledger/attribution/attribution.h"
#include "ledger/load/ground.h"

namespace gpumem {
namespace {

// Less than this of what is reserved is not worth a change.
constexpr uint64_t kPercentWorthMending = 5;
// Of settings less is enough: a variable of the environment is all that they take.
constexpr uint64_t kPercentOfSettings = 2;

Check AskOfFragmentation(const char* id, const char* question) {
  return MakeCheck(CheckTopic::kFragmentation, absl::StrCat("fragmentation.", id), question);
}

// What is reserved beyond what is allocated, and what other settings would make of it: replayed, or not known.
Check Settings(const ExplainSubject& subject) {
  const DeviceAnalysis& device = *subject.device;
  Check check = AskOfFragmentation("settings", "Would other settings of PyTorch's allocator reserve less?");
  const uint64_t reserved = device.peak_reserved.bytes;
  check.evidence = absl::StrCat(FormatBytes(reserved), " reserved at most, ", FormatBytes(WasteOf(device)),
                                " more than was allocated at most");
  if (subject.what_if == nullptr) {
    if (!IsWorthReplay(*subject.input, device) && GroundOf(*subject.input->analysis).covers == Covers::kRun)
      return check;
    check.outcome = CheckOutcome::kUnknown;
    absl::StrAppend(&check.evidence, GroundOf(*subject.input->analysis).covers == Covers::kRun
                                         ? "; the requests were not replayed"
                                         : "; a replay needs all requests from the beginning on");
    return check;
  }
  const WhatIfAnswer& answer = *subject.what_if;
  if (!IsReplayOf(answer, device)) {
    check.outcome = CheckOutcome::kUnknown;
    absl::StrAppend(&check.evidence, "; ",
                    !answer.not_followed.empty() ? absl::StrCat("a replay cannot follow it: ", answer.not_followed)
                    : answer.is_replayed() ? "a replay does not give what was recorded, so it tells nothing of others"
                                           : answer.why_not);
    check.action = answer.is_replayed() ? "gpumemshim replay shows the difference" : "";
    return check;
  }
  if (!answer.other.why_not.empty()) {
    check.outcome = CheckOutcome::kUnknown;
    absl::StrAppend(&check.evidence, "; ", answer.other.why_not);
    return check;
  }
  const uint64_t saving = ReplayedSaving(&answer, device);
  absl::StrAppend(&check.evidence, "; ", answer.other.Title(), ": ", FormatBytes(answer.other.peak_reserved),
                  " (replayed in PyTorch ", answer.torch, "'s own allocator)");
  if (!HasPercent(saving, reserved, kPercentOfSettings)) return check;
  check.outcome = CheckOutcome::kFound;
  check.saving = {SavingBasis::kReplayed, saving};
  check.action = answer.other.settings.empty() ? "unset PYTORCH_CUDA_ALLOC_CONF" : answer.other.Title();
  return check;
}

// Free memory that only one stream, or one private pool, can use.
Check Stranded(const DeviceAnalysis& device, const ReportInput& input) {
  Check check = AskOfFragmentation(
      "streams", "Does free memory lie where no other request can use it (streams, pools, sizes that rise)?");
  check.evidence = StrandedText(device, input);
  if (check.evidence.empty()) {
    check.evidence = "hardly any does";
    return check;
  }
  for (const ReserveRemedy& remedy : Remedies(device, input, kPercentOfSettings)) {
    if (!remedy.of_program || check.outcome == CheckOutcome::kFound) continue;
    check.outcome = CheckOutcome::kFound;
    check.saving = {SavingBasis::kReplayed, remedy.saving};
    check.action = remedy.advice;
  }
  return check;
}

// Whether the blocks were there before the last step began; without steps, for a tenth of the run. Younger ones are of
// the moment at which the trace ends.
bool IsLasting(const PinGroup& group, const ReportInput& input) {
  const uint64_t end = input.analysis->end_ns;
  uint64_t since = end - (end - input.analysis->origin_ns) / 10;
  if (input.attribution != nullptr && !input.attribution->steps.empty())
    since = input.attribution->steps.back().step.start.time_ns;
  return group.oldest_ns < since;
}

Check Pins(const DeviceAnalysis& device, const ReportInput& input) {
  Check check =
      AskOfFragmentation("pins", "Which blocks keep mostly empty segments from going back to CUDA at the end?");
  const FragmentationPoint& point = device.fragmentation.at_end;
  const std::vector<PinLine> lines = PinLines(device.fragmentation.groups_at_end, input);
  const uint64_t returnable = ReturnableBytes(device.fragmentation.groups_at_end);
  if (lines.empty()) {
    check.evidence = "no segment is kept by a few blocks";
    return check;
  }
  check.evidence = absl::StrCat(lines[0].site, ": ", PinText(lines[0].group, input.analysis->end_ns));
  if (lines.size() > 1)
    absl::StrAppend(&check.evidence, "; with ", FormatCountOf(lines.size() - 1, "other line", "other lines"), " ",
                    FormatBytes(returnable));
  if (!HasPercent(lines[0].group.returnable, point.reserved, kPercentWorthMending) || !IsLasting(lines[0].group, input))
    return check;
  check.outcome = CheckOutcome::kFound;
  check.saving = {SavingBasis::kAtMost, lines[0].group.returnable};
  check.action = absl::StrCat("free what ", lines[0].site, " keeps, or allocate it before the rest");
  return check;
}

// Idle segments cost nothing where nobody else asks for the memory.
Check Cached(const DeviceAnalysis& device) {
  Check check = AskOfFragmentation("cache", "Does PyTorch keep idle segments that another process could use?");
  const FragmentationPoint& point = device.fragmentation.at_end;
  check.evidence = absl::StrCat("torch.cuda.empty_cache() would return ", FormatBytes(point.empty_cache), " of ",
                                FormatBytes(point.free), " free at the end",
                                device.use.neighbours.empty() ? "; no other process was seen" : "");
  if (!IsContended(device) || !HasPercent(point.empty_cache, device.peak_reserved.bytes, kPercentWorthMending))
    return check;
  check.outcome = CheckOutcome::kFound;
  check.saving = {SavingBasis::kExact, point.empty_cache};
  check.action = "torch.cuda.empty_cache() where this program will not need it soon, for the sake of the others";
  return check;
}

Check Rounding(const DeviceAnalysis& device) {
  Check check = AskOfFragmentation("rounding", "How much do blocks hold beyond what was asked for?");
  const FragmentationPoint& point = device.fragmentation.at_peak;
  if (!point.requested_known) {
    check.outcome = CheckOutcome::kUnknown;
    check.evidence = "the requested sizes are not in this trace";
    return check;
  }
  check.evidence = absl::StrCat(FormatBytes(point.rounding), " of ", FormatBytes(point.allocated), " allocated");
  if (!HasPercent(point.rounding, point.allocated, kPercentWorthMending)) return check;
  check.outcome = CheckOutcome::kFound;
  check.saving = {SavingBasis::kAtMost, point.rounding};
  check.action = "gpumemshim sizes lists the requests; roundup_power2_divisions and small tensors cause this";
  return check;
}

Check Retries(const DeviceAnalysis& device, const Analysis& analysis) {
  Check check = AskOfFragmentation("retries", "Did PyTorch have to give memory back and ask CUDA again?");
  const auto found = std::find_if(analysis.retries.begin(), analysis.retries.end(),
                                  [&](const ServedRetries& each) { return each.device == device.device; });
  if (found == analysis.retries.end() || found->count == 0) {
    check.evidence = "no request was served only after a retry";
    return check;
  }
  check.outcome = CheckOutcome::kFound;
  check.evidence =
      absl::StrCat(FormatCountOf(found->count, "request", "requests"), ", after ", FormatBytes(found->released),
                   " had been given back; ", FormatTime(found->time_ns), " lost");
  check.action = "the program runs at the device's limit: see the checks of the peak";
  return check;
}

}  // namespace

std::vector<Check> FragmentationChecks(const ExplainSubject& subject) {
  const ReportInput& input = *subject.input;
  if (subject.device == nullptr || !UsesTorch(*subject.device)) {
    Check check = AskOfFragmentation("settings", "Would other settings of PyTorch's allocator reserve less?");
    check.outcome = CheckOutcome::kUnknown;
    check.evidence = "PyTorch's allocator did nothing in this trace";
    return {check};
  }
  const DeviceAnalysis& device = *subject.device;
  if (!GroundOf(*input.analysis).has_segments) {
    Check check = AskOfFragmentation("settings", "Would other settings of PyTorch's allocator reserve less?");
    check.outcome = CheckOutcome::kUnknown;
    check.evidence = "nobody recorded PyTorch's segments: where what is reserved lies is not known";
    return {check, Rounding(device)};
  }
  return {Settings(subject), Stranded(device, input), Pins(device, input),
          Cached(device),    Rounding(device),        Retries(device, *input.analysis)};
}

}  // namespace gpumem
