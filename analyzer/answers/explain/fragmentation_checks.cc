// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "answers/explain/checks.h"
#include "answers/parts/pin_lines.h"
#include "base/format.h"
#include "ledger/attribution/attribution.h"

namespace gpumem {
namespace {

// Less than this of what is reserved is not worth a change.
constexpr uint64_t kPercentWorthMending = 5;
// Of settings less is enough: a variable of the environment is all that they take.
constexpr uint64_t kPercentOfSettings = 2;

Check AskOfFragmentation(const char* id, const char* question) {
  return MakeCheck(CheckTopic::kFragmentation, absl::StrCat("fragmentation.", id), question);
}

// Of a replay that gives what was recorded it is a measurement.
SavingBasis BasisOf(const WhatIfAnswer& answer) {
  return answer.is_exact ? SavingBasis::kReplayed : SavingBasis::kEstimate;
}

uint64_t Less(const WhatIfAnswer& answer, const WhatIfRun& run) {
  return answer.recorded.peak_reserved - std::min(answer.recorded.peak_reserved, run.peak_reserved);
}

Check Settings(const ExplainSubject& subject) {
  Check check = AskOfFragmentation("settings", "Would other settings of PyTorch's allocator reserve less?");
  if (subject.what_if == nullptr) {
    if (!HasRoomToSave(subject.device->fragmentation)) {
      check.evidence = "little is free inside its segments, so none was tried";
      return check;
    }
    check.outcome = CheckOutcome::kUnknown;
    check.evidence = "the requests were not replayed";
    check.action = "gpumemshim replay tries them";
    return check;
  }
  const WhatIfAnswer& answer = *subject.what_if;
  if (!answer.is_replayed() || answer.tried.empty()) {
    check.outcome = CheckOutcome::kUnknown;
    check.evidence = answer.is_replayed() ? "with no other setting would the program have come as far" : answer.why_not;
    check.action = "gpumemshim replay says more";
    return check;
  }
  const WhatIfRun& best = answer.tried.front();
  const std::string name = best.settings.empty() ? "PyTorch's defaults" : best.settings;
  check.evidence =
      absl::StrCat(name, ": ", FormatBytes(best.peak_reserved), " reserved at most, with the recorded ones ",
                   FormatBytes(answer.recorded.peak_reserved), "; the best of ",
                   FormatCountOf(answer.tried.size(), "setting", "settings"), " replayed in PyTorch ", answer.torch,
                   "'s own allocator");
  if (!answer.is_exact) absl::StrAppend(&check.evidence, ", which does not give quite what was recorded");
  if (!HasPercent(Less(answer, best), answer.recorded.peak_reserved, kPercentOfSettings)) return check;
  check.outcome = CheckOutcome::kFound;
  check.saving = {BasisOf(answer), Less(answer, best)};
  check.action =
      best.settings.empty() ? "unset PYTORCH_CUDA_ALLOC_CONF" : absl::StrCat("PYTORCH_CUDA_ALLOC_CONF=", best.settings);
  return check;
}

Check Scattered(const ExplainSubject& subject) {
  const DeviceAnalysis& device = *subject.device;
  Check check =
      AskOfFragmentation("scattered", "Is free space inside PyTorch's segments scattered at the peak of reserved?");
  const FragmentationPoint& point = device.fragmentation.at_peak;
  check.evidence = point.free == 0
                       ? absl::StrCat("all of ", FormatBytes(point.reserved), " reserved is in use")
                       : absl::StrCat(FormatBytes(point.free), " of ", FormatBytes(point.reserved),
                                      " reserved is free, in ", FormatCountOf(point.free_ranges, "range", "ranges"),
                                      ", the largest ", FormatBytes(point.largest_free_range));
  if (FreeSpaceOf(point) != FreeSpace::kScattered) return check;
  check.outcome = CheckOutcome::kFound;
  check.saving = {SavingBasis::kAtMost, point.free};
  if (UsesExpandableSegments(device.fragmentation)) {
    check.action = "expandable segments are on already: allocate blocks of fewer different sizes";
    return check;
  }
  check.action = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True";
  if (subject.what_if != nullptr && subject.what_if->is_replayed())
    check.saving = {BasisOf(*subject.what_if), Less(*subject.what_if, subject.what_if->other)};
  else
    absl::StrAppend(&check.action, "; gpumemshim replay --try measures it");
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
  if (device.use.neighbours.empty() || !HasPercent(point.empty_cache, device.peak_reserved.bytes, kPercentWorthMending))
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
    Check check =
        AskOfFragmentation("scattered", "Is free space inside PyTorch's segments scattered at the peak of reserved?");
    check.outcome = CheckOutcome::kUnknown;
    check.evidence = "PyTorch's allocator did nothing in this trace";
    return {check};
  }
  const DeviceAnalysis& device = *subject.device;
  return {Scattered(subject), Settings(subject), Pins(device, input),
          Cached(device),     Rounding(device),  Retries(device, *input.analysis)};
}

}  // namespace gpumem
