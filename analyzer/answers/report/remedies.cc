// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/report/remedies.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "answers/report/leak_words.h"
#include "answers/report/reserve_causes.h"
#include "base/format.h"
#include "render/cells.h"

namespace gpumem {
namespace {

constexpr uint64_t kPercentOfFailure = 1;

struct PartWords {
  PeakPart part;
  absl::string_view name, cause, action;
};
constexpr PartWords kPartWords[] = {
    {PeakPart::kGradients, "gradients_in_forward",
     "gradients are kept from the optimizer's step to the next backward pass",
     "optimizer.zero_grad() before the forward pass"},
    {PeakPart::kCarried, "carried_over", "what one step or micro-batch computed is still there when the next one runs",
     "let go of it before the next forward pass (del, or = None), unless that uses it"},
    {PeakPart::kKeptLong, "kept_results", "what many steps computed is kept, and let go of at once",
     "keep it on the CPU, or let go of it earlier, unless the GPU needs it"},
    {PeakPart::kLoaded, "checkpoint_copy", "a loaded checkpoint's copy of the model stays on the GPU",
     "torch.load(..., map_location=\"cpu\"), or del the checkpoint once it is loaded"},
    {PeakPart::kForeach, "foreach_temporaries", "the optimizer's step makes temporaries for all parameters at once",
     "fused=True for the optimizer"},
    {PeakPart::kDeadAttempts, "dead_attempts", "calls that ran out of memory before still hold what they made",
     "let go of what failed attempts hold before the next one"},
    {PeakPart::kJoined, "joined", "torch.cat joins the results so far anew each time, and all of them stay on the GPU",
     "move each result to the CPU before they are joined, unless the loop itself needs them"},
    {PeakPart::kLittleUsed, "little_used", "a large result is computed of which a small part is used",
     "compute only the part that is used (the last position, for instance)"},
};

const PartWords& WordsOfPart(PeakPart part) {
  return *std::find_if(std::begin(kPartWords), std::end(kPartWords),
                       [&](const PartWords& words) { return words.part == part; });
}

Remedy MakeRemedy(PeakPart part, const PeakWithout::Held& held, const ReportInput& input) {
  Remedy remedy;
  remedy.part = part;
  remedy.site = SiteOfStack(held.stack, input);
  remedy.held = held.bytes;
  remedy.blocks = held.blocks;
  return remedy;
}

}  // namespace

absl::string_view PeakPartName(PeakPart part) { return WordsOfPart(part).name; }
absl::string_view CauseOf(PeakPart part) { return WordsOfPart(part).cause; }
absl::string_view ActionOf(PeakPart part) { return WordsOfPart(part).action; }

std::string SentenceOf(const Remedy& remedy) {
  return absl::StrCat(ActionOf(remedy.part), ": the peak would be ", FormatBytes(remedy.peak_without), " instead of ",
                      FormatBytes(remedy.peak), " (counted)");
}

std::string EvidenceOf(const Remedy& remedy) {
  return absl::StrCat(CauseOf(remedy.part), ": ", FormatBytes(remedy.held), " in ",
                      FormatCountOf(remedy.blocks, "block", "blocks"),
                      remedy.site.empty() ? "" : absl::StrCat(", most from ", remedy.site));
}

std::vector<Remedy> RemediesOfPeak(const ReportInput& input, const DeviceAnalysis& device, uint64_t least_percent) {
  std::vector<Remedy> remedies;
  if (input.without == nullptr || DefaultMeasure(device) != Measure::kAllocated) return remedies;
  for (const PartWords& words : kPartWords) {
    // Without what they hold the request that failed might have been served: nobody knows that peak.
    if (words.part == PeakPart::kDeadAttempts) continue;
    const std::optional<uint64_t> left = input.without->Of(words.part);
    if (!left.has_value() || *left >= device.peak_allocated.bytes) continue;
    // Of what grows to the end of the run more is known than that (leak_words.h).
    if (words.part == PeakPart::kKeptLong && GrowingBytes(input.leaks, device.device) != 0) continue;
    Remedy remedy = MakeRemedy(words.part, input.without->At(words.part), input);
    remedy.peak = device.peak_allocated.bytes;
    remedy.peak_without = *left;
    if (HasPercent(remedy.saving(), remedy.peak, least_percent)) remedies.push_back(std::move(remedy));
  }
  std::stable_sort(remedies.begin(), remedies.end(),
                   [](const Remedy& a, const Remedy& b) { return a.saving() > b.saving(); });
  return remedies;
}

std::vector<Remedy> RemediesOfFailure(const ReportInput& input, const OomEvent& oom) {
  std::vector<Remedy> remedies;
  if (input.without == nullptr) return remedies;
  for (const PartWords& words : kPartWords) {
    const PeakWithout::Held held = input.without->At(words.part, oom.event_index);
    if (held.bytes == 0 || !HasPercent(held.bytes, oom.values.allocated, kPercentOfFailure)) continue;
    remedies.push_back(MakeRemedy(words.part, held, input));
  }
  std::stable_sort(remedies.begin(), remedies.end(), [](const Remedy& a, const Remedy& b) { return a.held > b.held; });
  return remedies;
}

}  // namespace gpumem
