// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/compare/headline.h"

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "answers/compare/cause.h"
#include "answers/compare/plan_parts.h"
#include "base/format.h"
#include "ledger/stacks/names.h"

namespace gpumem {
namespace {

// "" where it is not known. A plan is ended once it has seen enough.
std::string EndingText(absl::string_view side, const RunFacts& facts) {
  if (facts.is_planned && facts.ending != RunEnding::kOutOfMemory) return absl::StrCat(side, " completed");
  if (facts.ending == RunEnding::kOutOfMemory)
    return absl::StrCat(side, " ran out of memory (", FormatBytes(facts.refused_bytes), " refused)");
  if (facts.ending == RunEnding::kKilled) return absl::StrCat(side, " was killed");
  if (facts.ending == RunEnding::kRunning) return absl::StrCat(side, " still runs");
  return facts.ending == RunEnding::kCompleted ? absl::StrCat(side, " completed") : "";
}

void AddDoubts(absl::string_view side, const RunFacts& facts, std::vector<std::string>* doubts) {
  if (facts.is_damaged) doubts->push_back(absl::StrCat(side, " is damaged"));
  if (facts.lost_events > 0)
    doubts->push_back(absl::StrCat(side, " lost ", FormatCountOf(facts.lost_events, "event", "events")));
  if (facts.bound == PeakBound::kExact) return;
  const uint64_t peak = facts.measure == Measure::kTotal ? facts.peak_total : facts.peak_allocated;
  doubts->push_back(absl::StrCat("its peak is ", BoundedBytes(facts.bound, peak)));
}

// "+3.10 GiB at the peak", "no difference at the peak".
std::string AmountText(const Diff& diff) {
  std::string what;
  if (diff.subject == "reserved") what = " reserved";
  if (diff.subject == "outside") what = " outside PyTorch";
  if (diff.subject == "host") what = " of no device";
  if (diff.subject == "total") what = " of CUDA memory";
  const std::string amount =
      diff.delta == 0
          ? "no difference"
          : absl::StrCat(diff.delta < 0 ? "-" : "+", FormatBytes(static_cast<uint64_t>(std::abs(diff.delta))), what);
  const bool are_peaks = diff.a.moment == "peak" && diff.b.moment == "peak";
  return absl::StrCat(amount,
                      are_peaks ? " at the peak" : absl::StrCat(" from ", diff.a.moment, " to ", diff.b.moment));
}

std::string CauseText(const Diff& diff) {
  if (!diff.a.has_moment || !diff.b.has_moment) return "not known: no GPU memory was recorded in one of the two";
  if (diff.cause.kind == CauseKind::kNone) {
    if (ArePeaks(diff))
      return absl::StrCat(FormatBytes(diff.b.peak_allocated), " allocated and ", FormatBytes(diff.b.peak_reserved),
                          " reserved in both");
    return absl::StrCat(FormatBytes(diff.subject == "total" ? diff.b.values.total : diff.b.values.allocated),
                        " in both");
  }
  if (diff.cause.kind == CauseKind::kUnknown) return "cause not known, no group of blocks explains half of it";
  return diff.cause.text;
}

// What differs besides the subject, and is not the same difference again: "; reserved +1.44 GiB".
std::string OthersText(const Diff& diff) {
  if (!ArePeaks(diff) || diff.delta == 0) return "";
  constexpr int64_t kLeast = int64_t{1} << 20, kLeastShare = 4;  // a quarter of the subject's
  const SeriesChanges changes = ChangesOf(diff);
  const auto counts = [&](int64_t change) {
    return std::abs(change) >= kLeast && std::abs(change) >= std::abs(diff.delta) / kLeastShare;
  };
  const auto amount = [](absl::string_view what, int64_t change) {
    return absl::StrCat("; ", what, change < 0 ? " -" : " +", FormatBytes(static_cast<uint64_t>(std::abs(change))));
  };
  std::string text;
  if (diff.subject != "allocated" && counts(changes.allocated))
    absl::StrAppend(&text, amount("allocated", changes.allocated));
  if (diff.subject == "allocated" && counts(changes.reserved - changes.allocated))
    absl::StrAppend(&text, amount("reserved", changes.reserved));
  if (diff.subject != "outside" && counts(changes.outside))
    absl::StrAppend(&text, amount("outside PyTorch", changes.outside));
  if (diff.subject != "host" && counts(changes.host))
    absl::StrAppend(&text, amount("pinned and managed memory", changes.host));
  return text;
}

}  // namespace

void WriteHeadline(Diff* diff) {
  AddDoubts("A", diff->a, &diff->doubts);
  if (!diff->same_trace) AddDoubts("B", diff->b, &diff->doubts);
  const bool differ_in_end =
      EndingText("", diff->a) != EndingText("", diff->b) || diff->a.refused_bytes != diff->b.refused_bytes;
  if (!diff->same_trace && diff->a.ending != diff->b.ending && differ_in_end) {
    const std::string of_a = EndingText("A", diff->a), of_b = EndingText("B", diff->b);
    const bool is_one_known = of_a.empty() || of_b.empty();
    const bool is_plain =
        is_one_known && (diff->a.ending == RunEnding::kCompleted || diff->b.ending == RunEnding::kCompleted);
    if (!is_plain) diff->doubts.insert(diff->doubts.begin(), absl::StrCat(of_b, is_one_known ? "" : ", ", of_a));
  }
  const std::string sentence = !diff->parts.empty()
                                   ? PlanSentence(*diff)
                                   : absl::StrCat(AmountText(*diff), ": ", CauseText(*diff), OthersText(*diff));
  diff->headline = diff->doubts.empty() ? sentence : absl::StrCat(absl::StrJoin(diff->doubts, "; "), ": ", sentence);
}

}  // namespace gpumem
