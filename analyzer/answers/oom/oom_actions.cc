// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What to do about a failed request (oom_story.h): rules over its numbers, each with the evidence that made it speak.

#include <algorithm>
#include <cstddef>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "answers/oom/oom_story.h"
#include "answers/parts/pin_lines.h"
#include "answers/report/leak_words.h"
#include "answers/report/owner_words.h"
#include "answers/report/remedies.h"
#include "answers/report/sections.h"
#include "base/format.h"

namespace gpumem {
namespace {

constexpr size_t kMaxStacksByStage = 500;
// From this share of the live memory on, activations are worth a word.
constexpr uint64_t kPercentOfStage = 30;
// Of PyTorch's segments: what is free in pieces, or kept by few blocks.
constexpr uint64_t kPercentScattered = 10;
constexpr uint64_t kPercentGrown = 20;
constexpr uint64_t kPercentOfErrors = 5;  // what kept errors hold, where that is enough for the request
constexpr uint64_t kPercentOfGraph = 50;  // of what autograd keeps
constexpr uint64_t kManyRetries = 10;

std::string Share(uint64_t part, uint64_t whole) {
  return FormatPercent(whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole));
}

class Adviser {
 public:
  Adviser(const OomEvent& oom, const ReportInput& input, bool fit_is_replayed)
      : oom_(oom), input_(input), fit_is_replayed_(fit_is_replayed) {}

  std::vector<OomAction> Advise() {
    if (!oom_.final) {
      Retries();
      return std::move(actions_);
    }
    if (oom_.device < 0) {
      Add("pin less host memory, or raise the limit (ulimit -l)",
          absl::StrCat(FormatBytes(input_.analysis->host_pinned_peak), " were pinned at most"));
      return std::move(actions_);
    }
    Limit();
    const size_t certain = actions_.size();
    if (oom_.device_total != 0 && oom_.requested > oom_.device_total) {
      Smaller();
      return std::move(actions_);
    }
    // Little idle memory carries this one request, and not the next ones.
    const bool much_is_idle = HasPercent(oom_.fragmentation.free, oom_.fragmentation.reserved, kPercentIdle);
    const bool is_too_large = IsTooLarge(oom_);
    Growth();
    const bool are_seen = KeptErrors();
    TooLong(are_seen);
    if (much_is_idle && !is_too_large) Fragmentation();
    KeptSegments();
    Others();
    OtherCudaMemory();
    Activations();
    if (!much_is_idle && !is_too_large && actions_.size() == certain) Fragmentation();
    OptimizerState();
    if (oom_.described) SortFrom(certain);
    if (is_too_large) Smaller();
    Missing();
    Retries();
    return std::move(actions_);
  }

 private:
  void Add(std::string action, std::string evidence, uint64_t bytes = 0) {
    actions_.push_back({std::move(action), std::move(evidence), bytes});
  }

  // What is enough alone comes before what is not; where that is not known, what gains anything.
  void SortFrom(size_t first) {
    const uint64_t missing = IsBoundedByRefusal(oom_) ? 1 : MissingBytes(oom_);
    std::stable_partition(actions_.begin() + static_cast<std::ptrdiff_t>(first), actions_.end(),
                          [&](const OomAction& action) { return action.bytes >= missing; });
  }

  void Smaller() {
    Add("make the request smaller, or split it",
        absl::StrCat(FormatBytes(oom_.requested), " asked of a device of ", FormatBytes(oom_.device_total)));
  }

  void Limit() {
    if (!oom_.limited) return;
    const std::string of_limit = oom_.limit == 0 ? "" : absl::StrCat(" of ", FormatBytes(oom_.limit), " allowed");
    const ProcessInfo& process = input_.analysis->process;
    Add(absl::StrCat("raise the limit that ", IsLimitOfRecorder(oom_, process) ? "this run" : "the program", " sets (",
                     NameOfLimit(oom_, process), ")"),
        absl::StrCat("PyTorch gave up at ", FormatBytes(oom_.values.reserved), " reserved", of_limit,
                     " without asking CUDA, while ", FormatBytes(oom_.device_free), " were free on the device"),
        oom_.device_free);
  }

  void Fragmentation() {
    const FragmentationPoint& pieces = oom_.fragmentation;
    if (oom_.layer != kTorchLayer || pieces.free_ranges == 0) return;
    const bool would_help =
        oom_.fit_in_one_piece >= oom_.requested || HasPercent(pieces.free, pieces.reserved, kPercentScattered);
    if (!would_help || pieces.largest_free_range >= oom_.requested) return;
    std::string evidence = absl::StrCat(FormatBytes(pieces.free), " idle in PyTorch's segments, in ",
                                        FormatCountOf(pieces.free_ranges, "range", "ranges"), ", the largest ",
                                        FormatBytes(pieces.largest_free_range));
    ReleasePins();
    if (oom_.expandable_segments) {
      Add("allocate blocks of fewer different sizes (expandable segments are on already)", std::move(evidence));
      return;
    }
    const uint64_t fit = oom_.fit_expandable.value_or(0);
    if (fit <= oom_.would_have_fit) return;
    absl::StrAppend(&evidence, "; with expandable segments up to ", FormatBytes(fit),
                    " would have been there for one request (", fit_is_replayed_ ? "by replay" : "estimate", "), ",
                    fit >= oom_.requested ? "enough" : "not enough alone");
    Add("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", std::move(evidence), fit - oom_.would_have_fit);
  }

  // The line that keeps most segments.
  void ReleasePins() {
    const std::vector<PinLine> lines = PinLines(oom_.pin_groups, input_);
    if (lines.empty() || !HasPercent(lines[0].group.returnable, oom_.fragmentation.reserved, kPercentScattered)) return;
    Add(absl::StrCat("free what ", lines[0].site, " keeps, or allocate it before the rest"),
        PinText(lines[0].group, oom_.time_ns), lines[0].group.returnable);
  }

  void KeptSegments() {
    if (oom_.layer != kTorchLayer || oom_.limited || oom_.whole_segments == 0) return;
    if (!HasPercent(oom_.whole_segment_bytes, oom_.requested, 10)) return;
    Add("look at pools that PyTorch may not empty: CUDA graphs, torch.cuda.MemPool, a capture under way",
        absl::StrCat(FormatBytes(oom_.whole_segment_bytes), " lay in ",
                     FormatCountOf(oom_.whole_segments, "segment", "segments"),
                     " without any block and were not given back"),
        oom_.whole_segment_bytes);
  }

  void Others() {
    const std::optional<uint64_t> unseen = UnseenBytes(oom_);
    if (!unseen || *unseen <= kContextAtMost) return;
    Add("see who else uses this GPU (nvidia-smi), and end it or choose another GPU",
        absl::StrCat(FormatBytes(*unseen),
                     " of the device is not CUDA memory of this process; its CUDA context takes a ",
                     "few hundred MiB of that"),
        *unseen - kContextAtMost);
  }

  void OtherCudaMemory() {
    if (oom_.layer != kTorchLayer || !HasPercent(oom_.values.other, oom_.values.total, 20)) return;
    Add("gpumemshim peak --measure total: who holds CUDA memory outside PyTorch",
        absl::StrCat(FormatBytes(oom_.values.other), " (", Share(oom_.values.other, oom_.values.total),
                     " of this process's) are CUDA memory of this process that is not PyTorch's"),
        oom_.values.other);
  }

  // A kept exception keeps the variables of the functions that failed.
  bool KeptErrors() {
    const OwnersMoment* const moment = OwnersAfter(oom_, *input_.analysis);
    if (moment == nullptr) return false;
    const std::optional<SeenOwner> errors = KeptErrorsOf(moment->seen);
    if (!errors.has_value()) return false;
    const uint64_t missing = MissingBytes(oom_);
    const bool is_enough = missing != 0 && errors->bytes >= missing;
    if (!HasPercent(errors->bytes, oom_.values.total, is_enough ? kPercentOfErrors : kPercentGrown)) return false;
    const uint64_t held =
        input_.without == nullptr ? 0 : input_.without->At(PeakPart::kDeadAttempts, oom_.event_index).bytes;
    Add(IsOfHandledError(*errors)
            ? "try again behind the except block, not inside it: the error that it handles keeps the failed attempt"
            : absl::StrCat("keep the text of an error, str(error), instead of the exception: ", errors->path,
                           " keeps what the failed attempts made"),
        absl::StrCat(FormatBytes(errors->bytes), " were seen to be kept by ", OwnerText(*errors),
                     held <= errors->bytes
                         ? ""
                         : absl::StrCat("; all calls that ran out of memory before hold ", FormatBytes(held))),
        std::max(errors->bytes, held));
    return true;
  }

  // A program that holds more after each step runs full whatever the batch.
  void Growth() {
    const uint64_t grown = GrowingBytes(input_.leaks, oom_.device);
    if (!HasPercent(grown, oom_.values.total, kPercentGrown)) return;
    const LeakRow& most = LeaksOf(*input_.leaks, oom_.device)->rows[0];
    const std::optional<SeenOwner> owner = MainOwner(most);
    Add(owner.has_value() && owner->root != OwnerRoot::kNative
            ? absl::StrCat("let go of what grows: ", LeakSite(most), ", ", KeptByText(most))
            : "gpumemshim leaks: see what grows from step to step",
        LeakHeadline(*input_.leaks, oom_.device), grown);
  }

  // What dead attempts hold, where nobody was seen to keep it, and what lives too long.
  void TooLong(bool are_dead_seen) {
    for (const Remedy& remedy : RemediesOfFailure(input_, oom_)) {
      if (remedy.part == PeakPart::kDeadAttempts && are_dead_seen) continue;
      Add(std::string(ActionOf(remedy.part)), EvidenceOf(remedy), remedy.held);
    }
  }

  // Of what autograd keeps a backward pass needs all; made again when it does, it is not there now.
  void Activations() {
    const uint64_t bytes = input_.without == nullptr ? 0 : input_.without->ActivationsAt(oom_.event_index);
    if (!HasPercent(bytes, oom_.values.allocated, kPercentOfStage)) return;
    Add("recompute activations (torch.utils.checkpoint)",
        absl::StrCat("autograd keeps ", FormatBytes(bytes), " (", Share(bytes, oom_.values.allocated),
                     ") of the live memory for the backward pass: no more than that is saved", GraphOwnerText(bytes)),
        bytes);
  }

  // Whose graph has most of it, where that was seen: of one forward pass, or of several that are added up.
  std::string GraphOwnerText(uint64_t activations) const {
    const OwnersMoment* const moment = OwnersAfter(oom_, *input_.analysis);
    if (moment == nullptr) return "";
    for (const SeenOwner& owner : moment->seen.owners) {
      if (absl::EndsWith(owner.path, "grad_fn") && HasPercent(owner.bytes, activations, kPercentOfGraph))
        return absl::StrCat("; ", FormatBytes(owner.bytes), " were seen to be kept by ", OwnerText(owner));
    }
    return "";
  }

  // A first step makes all of it: this request is one of many.
  void OptimizerState() {
    const uint64_t more = input_.without == nullptr ? 0 : input_.without->StateMissingAt(oom_.event_index);
    if (more <= MissingBytes(oom_)) return;
    Add(absl::StrCat("free at least ", FormatBytes(more - std::min(more, oom_.would_have_fit)),
                     " before the optimizer's first step, or take an optimizer with less state"),
        absl::StrCat("its state needs at least ", FormatBytes(more),
                     " more, as much for each parameter as for the first ones; ", "at most ",
                     FormatBytes(oom_.would_have_fit), " would have fit"),
        more);
  }

  void Missing() {
    if (input_.without != nullptr && input_.without->StateMissingAt(oom_.event_index) > MissingBytes(oom_)) return;
    const bool is_bounded = !oom_.limited || oom_.limit != 0;
    const uint64_t missing = MissingBytes(oom_);
    if (!is_bounded || missing == 0) return;
    Add(absl::StrCat("free ", FormatBytes(missing), " before this request, or ask for as much less"),
        absl::StrCat("at most ", FormatBytes(oom_.would_have_fit), " would have fit of ", FormatBytes(oom_.requested),
                     "; what the program needs after it is not known"),
        missing);
  }

  void Retries() {
    for (const ServedRetries& retries : input_.analysis->retries) {
      if (oom_.limited || retries.device != oom_.device || retries.count < kManyRetries) continue;
      Add("use less memory: the program runs at the edge",
          absl::StrCat(FormatCount(retries.count),
                       " requests were served only after memory was given back, which took ",
                       FormatTime(retries.time_ns)));
    }
  }

  const OomEvent& oom_;
  const ReportInput& input_;
  const bool fit_is_replayed_;
  std::vector<OomAction> actions_;
};

}  // namespace

std::map<Stage, uint64_t> LiveByStage(const LiveSet& live, const ReportInput& input) {
  std::map<Stage, uint64_t> bytes;
  const size_t count = std::min(live.stacks.size(), kMaxStacksByStage);
  for (size_t i = 0; i < count; ++i) {
    bytes[StageOf(input.stacks->Frames(live.stacks[i].stack_id))] += live.stacks[i].bytes;
  }
  for (size_t i = count; i < live.stacks.size(); ++i) bytes[Stage::kNone] += live.stacks[i].bytes;
  return bytes;
}

std::vector<OomAction> ActionsOnOom(const OomEvent& oom, const ReportInput& input, bool fit_is_replayed) {
  return Adviser(oom, input, fit_is_replayed).Advise();
}

}  // namespace gpumem
