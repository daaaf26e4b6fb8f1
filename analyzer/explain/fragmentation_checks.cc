// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "attribution/attribution.h"
#include "base/format.h"
#include "explain/checks.h"
#include "report/pin_lines.h"

namespace gpumem {
namespace {

// Less than this of what is reserved is not worth a change.
constexpr uint64_t kPercentWorth = 5;

Check Ask(const char* id, const char* question) {
  return MakeCheck(CheckTopic::kFragmentation, absl::StrCat("fragmentation.", id), question);
}

Check Scattered(const DeviceAnalysis& device) {
  Check check = Ask("scattered", "Is free space inside PyTorch's segments scattered at the peak of reserved?");
  const FragmentationPoint& point = device.fragmentation.at_peak;
  check.evidence = point.free == 0
                       ? absl::StrCat("all of ", FormatBytes(point.reserved), " reserved is in use")
                       : absl::StrCat(FormatBytes(point.free), " of ", FormatBytes(point.reserved),
                                      " reserved is free, in ", FormatCountOf(point.free_ranges, "range", "ranges"),
                                      ", the largest ", FormatBytes(point.largest_free_range));
  if (FreeSpaceOf(point) != FreeSpace::kScattered) return check;
  check.outcome = CheckOutcome::kFound;
  check.saving = {SavingBasis::kAtMost, point.free};
  check.action = UsesExpandableSegments(device.fragmentation)
                     ? "expandable segments are on already: allocate blocks of fewer different sizes"
                     : "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; gpumem replay --try measures it";
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
  Check check = Ask("pins", "Which blocks keep mostly empty segments from going back to CUDA at the end?");
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
  if (!HasPercent(lines[0].group.returnable, point.reserved, kPercentWorth) || !IsLasting(lines[0].group, input))
    return check;
  check.outcome = CheckOutcome::kFound;
  check.saving = {SavingBasis::kAtMost, lines[0].group.returnable};
  check.action = absl::StrCat("free what ", lines[0].site, " keeps, or allocate it before the rest");
  return check;
}

// Idle segments cost nothing where nobody else asks for the memory.
Check Cached(const DeviceAnalysis& device) {
  Check check = Ask("cache", "Does PyTorch keep idle segments that another process could use?");
  const FragmentationPoint& point = device.fragmentation.at_end;
  check.evidence = absl::StrCat("torch.cuda.empty_cache() would return ", FormatBytes(point.empty_cache), " of ",
                                FormatBytes(point.free), " free at the end",
                                device.use.neighbours.empty() ? "; no other process was seen" : "");
  if (device.use.neighbours.empty() || !HasPercent(point.empty_cache, device.peak_reserved.bytes, kPercentWorth))
    return check;
  check.outcome = CheckOutcome::kFound;
  check.saving = {SavingBasis::kExact, point.empty_cache};
  check.action = "torch.cuda.empty_cache() where this program will not need it soon, for the sake of the others";
  return check;
}

Check Rounding(const DeviceAnalysis& device) {
  Check check = Ask("rounding", "How much do blocks hold beyond what was asked for?");
  const FragmentationPoint& point = device.fragmentation.at_peak;
  if (!point.requested_known) {
    check.outcome = CheckOutcome::kUnknown;
    check.evidence = "the requested sizes are not in this trace";
    return check;
  }
  check.evidence = absl::StrCat(FormatBytes(point.rounding), " of ", FormatBytes(point.allocated), " allocated");
  if (!HasPercent(point.rounding, point.allocated, kPercentWorth)) return check;
  check.outcome = CheckOutcome::kFound;
  check.saving = {SavingBasis::kAtMost, point.rounding};
  check.action = "gpumem sizes lists the requests; roundup_power2_divisions and small tensors cause this";
  return check;
}

Check Retries(const DeviceAnalysis& device, const Analysis& analysis) {
  Check check = Ask("retries", "Did PyTorch have to give memory back and ask CUDA again?");
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
    Check check = Ask("scattered", "Is free space inside PyTorch's segments scattered at the peak of reserved?");
    check.outcome = CheckOutcome::kUnknown;
    check.evidence = "PyTorch's allocator did nothing in this trace";
    return {check};
  }
  const DeviceAnalysis& device = *subject.device;
  return {Scattered(device), Pins(device, input), Cached(device), Rounding(device), Retries(device, *input.analysis)};
}

}  // namespace gpumem
