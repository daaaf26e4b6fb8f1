// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "answers/explain/checks.h"
#include "answers/parts/model_parts.h"
#include "answers/report/peak_without.h"
#include "answers/report/remedies.h"
#include "answers/report/sections.h"
#include "answers/report/stack_rows.h"
#include "answers/report/verdict.h"
#include "base/format.h"
#include "ledger/attribution/attribution.h"
#include "ledger/stacks/names.h"
#include "render/cells.h"
#include "trace/import_info.h"

namespace gpumem {
namespace {

// From this share of the peak on, a part of it is worth a word.
constexpr uint64_t kPercentWorth = 5;
constexpr uint64_t kPercentOfLine = 20;
constexpr size_t kLeastStepsToJudge = 3;
constexpr uint64_t kRecursPercent = 98;
// Bytes of state for each trainable number: two of four bytes in Adam; an optimizer with 8 bit states has two of one.
constexpr double kFullAdamState = 7.5;
constexpr uint64_t kSmallAdamState = 2;

Check AskOfPeak(const char* id, const char* question) {
  return MakeCheck(CheckTopic::kPeak, absl::StrCat("peak.", id), question);
}

StackUse StackUseOf(const AttributedUse& use) {
  StackUse row;
  row.stack_id = use.stack_id;
  row.layer = use.layer;
  row.bytes = use.bytes;
  row.count = use.count;
  return row;
}

// What the checks of a peak share.
class Peak {
 public:
  Peak(const ExplainSubject& subject, const Moment& moment)
      : input_(*subject.input),
        device_(*subject.device),
        moment_(moment),
        measure_(DefaultMeasure(device_)),
        bytes_(PeakOf(device_, measure_).bytes),
        live_(LiveAtPeak(device_, measure_)),
        categories_(CategoriesOfPeak(moment, measure_, bytes_).bytes),
        model_(TotalsOf(*input_.attribution, *subject.objects).all),
        without_(subject.input->without) {}

  std::vector<Check> Walk() const {
    return {Once(),
            Line(),
            Activations(),
            TooLong(PeakPart::kGradients, "Are old gradients alive where none are needed?"),
            TooLong(PeakPart::kCarried, "Is something alive from an earlier step or micro-batch?"),
            TooLong(PeakPart::kKeptLong, "Are results of many steps kept?"),
            TooLong(PeakPart::kLoaded, "Does a loaded checkpoint stay on the GPU?"),
            TooLong(PeakPart::kForeach, "Does the optimizer's step make many temporaries at once?"),
            TooLong(PeakPart::kJoined, "Do results that are joined again and again stay on the GPU?"),
            TooLong(PeakPart::kLittleUsed, "Is a large result computed of which a part is used?"),
            OptimizerState(),
            Parameters(),
            Loss(),
            Outside(),
            OtherProcesses()};
  }

 private:
  uint64_t Of(Category category) const { return categories_[Index(category)]; }
  // No advice lets go of more than all of them; without them the peak is another moment's, where that was counted.
  void SaveAll(uint64_t bytes, PeakPart part, Check* check) const {
    const auto left = without_ == nullptr ? std::nullopt : without_->Of(part);
    const bool is_counted = left.has_value() && measure_ == Measure::kAllocated;
    check->saving = {SavingBasis::kAtMost, is_counted ? bytes_ - std::min(bytes_, *left) : bytes};
    if (is_counted) absl::StrAppend(&check->evidence, "; without them the peak would be ", FormatBytes(*left));
  }
  // "1.2 GiB (12 % of the peak)".
  std::string OfPeak(uint64_t bytes) const {
    return absl::StrCat(FormatBytes(bytes), " (", ShareCell(bytes, bytes_), " of the peak)");
  }
  Check Once() const {
    Check check = AskOfPeak("recurs", "Do most steps need as much, or is it one moment?");
    uint64_t next = 0, as_high = 0, steps = 0;
    for (const AttributedStep& each : input_.attribution->steps) {
      if (!each.step.complete) continue;
      ++steps;
      const uint64_t peak = each.step.peak.values.allocated;
      if (each.step.number == moment_.step || HasPercent(peak, bytes_, kRecursPercent)) {
        ++as_high;
      } else {
        next = std::max(next, peak);
      }
    }
    if (steps < kLeastStepsToJudge || measure_ != Measure::kAllocated) {
      check.outcome = CheckOutcome::kUnknown;
      check.evidence = absl::StrCat("too few training steps to compare: ", steps);
      return check;
    }
    check.evidence = absl::StrCat(as_high, " of ", FormatCountOf(steps, "step", "steps"), " reach it");
    const bool outside = moment_.step == 0;
    if (outside ? as_high != 0 : as_high != 1) return check;
    check.outcome = CheckOutcome::kFound;
    check.evidence = absl::StrCat(outside ? "outside of the training steps" : absl::StrCat("only step ", moment_.step),
                                  WhenText(live_, input_), "; the other steps need at most ", FormatBytes(next));
    check.action =
        outside ? "make that part smaller: it is not the training that sets the peak"
                : "look at what is special there: a longer batch, an evaluation, a warm-up or a benchmark of kernels";
    check.saving = {SavingBasis::kExact, bytes_ - std::min(bytes_, next)};
    return check;
  }

  Check Line() const {
    Check check = AskOfPeak("largest_line", "Does one line make a large part of it?");
    const std::vector<StackGroup> lines = GroupStacks(live_.stacks, input_, /*by_stack=*/false);
    const StackGroup* const line = TopLine(lines);
    if (line == nullptr) {
      if (lines.empty()) check.outcome = CheckOutcome::kUnknown;
      check.evidence = lines.empty() ? "no stack is known" : "libraries' workspaces alone";
      return check;
    }
    check.evidence = absl::StrCat(line->view.site, ", ", OfPeak(line->use.bytes), " in ",
                                  FormatCountOf(line->use.count, "block", "blocks"));
    if (!HasPercent(line->use.bytes, bytes_, kPercentOfLine)) return check;
    if (IsLasting(*line)) return check;  // nothing that a line computes
    check.outcome = CheckOutcome::kFound;
    check.action = "compute it in parts, in place, or in a smaller type";
    SaveAll(line->use.bytes, PeakPart::kLine, &check);
    return check;
  }

  // Whether most of a line is the model's or the optimizer's.
  bool IsLasting(const StackGroup& line) const {
    std::vector<StackUse> lasting;
    for (const AttributedUse& use : moment_.uses) {
      if (use.category == Category::kParameter || use.category == Category::kGradient ||
          use.category == Category::kOptimizerState)
        lasting.push_back(StackUseOf(use));
    }
    const std::vector<StackGroup> groups = GroupStacks(lasting, input_, /*by_stack=*/false);
    return std::any_of(groups.begin(), groups.end(), [&](const StackGroup& group) {
      return group.view.site == line.view.site && 2 * group.use.bytes >= line.use.bytes;
    });
  }

  Check Activations() const {
    Check check = AskOfPeak("activations", "How much does autograd keep for the backward pass?");
    check.evidence = absl::StrCat("activations: ", OfPeak(Of(Category::kActivation)));
    if (!HasPercent(Of(Category::kActivation), bytes_, kPercentOfLine)) return check;
    check.outcome = CheckOutcome::kFound;
    check.action =
        "recompute activations (torch.utils.checkpoint) or take a smaller batch; gpumemshim plan -- CMD measures "
        "either";
    SaveAll(Of(Category::kActivation), PeakPart::kActivations, &check);
    return check;
  }

  // What lives too long: what it would save is counted, or nothing is said.
  Check TooLong(PeakPart part, const char* question) const {
    Check check = AskOfPeak(std::string(PeakPartName(part)).c_str(), question);
    const auto left = without_ == nullptr ? std::nullopt : without_->Of(part);
    if (!left.has_value()) {
      check.outcome = CheckOutcome::kUnknown;
      check.evidence = "the lives of blocks were not counted: too many events, or some are missing";
      return check;
    }
    check.evidence = "nothing that would lower the peak by 1 % or more";
    for (const Remedy& remedy : RemediesOfPeak(input_, device_, kLeastRemedyPercent)) {
      if (remedy.part != part) continue;
      check.outcome = CheckOutcome::kFound;
      check.evidence =
          absl::StrCat(EvidenceOf(remedy), "; without that the peak would be ", FormatBytes(remedy.peak_without));
      check.action = std::string(ActionOf(part));
      check.saving = {SavingBasis::kExact, remedy.saving()};
    }
    return check;
  }

  Check OptimizerState() const {
    Check check = AskOfPeak("optimizer_state", "Is the optimizer's state large for what is trained?");
    const uint64_t state = Of(Category::kOptimizerState);
    check.evidence = absl::StrCat("optimizer state: ", OfPeak(state));
    const uint64_t numbers = model_.trainable_parameters;
    if (numbers == 0 || !HasPercent(state, bytes_, kPercentWorth)) return check;
    const double each = static_cast<double>(model_.state_bytes) / static_cast<double>(numbers);
    absl::StrAppend(&check.evidence,
                    absl::StrCat(", ", FormatBytes(static_cast<uint64_t>(each)), " for each trainable number"));
    if (each < kFullAdamState) return check;
    check.outcome = CheckOutcome::kFound;
    check.action = "an optimizer with 8 bit states, or shard it (FSDP, ZeRO)";
    check.saving = {SavingBasis::kArithmetic,
                    model_.state_bytes - std::min(model_.state_bytes, kSmallAdamState * numbers)};
    return check;
  }

  Check Parameters() const {
    Check check = AskOfPeak("parameters", "Are the parameters larger than they need be?");
    const uint64_t bytes = Of(Category::kParameter);
    check.evidence = absl::StrCat("parameters: ", OfPeak(bytes));
    if (model_.parameters == 0 || !HasPercent(bytes, bytes_, kPercentWorth)) return check;
    const uint64_t frozen = model_.parameter_bytes - std::min(model_.parameter_bytes, model_.trainable_bytes);
    const uint64_t frozen_numbers = model_.parameters - std::min(model_.parameters, model_.trainable_parameters);
    if (frozen != 0) absl::StrAppend(&check.evidence, ", ", FormatBytes(frozen), " of them frozen");
    // Frozen ones need no master copy in four bytes.
    if (frozen_numbers == 0 || frozen < 4 * frozen_numbers) return check;
    check.outcome = CheckOutcome::kFound;
    check.action = "load the frozen parameters in a type of two bytes";
    check.saving = {SavingBasis::kArithmetic, frozen - 2 * frozen_numbers};
    return check;
  }

  Check Loss() const {
    Check check = AskOfPeak("loss", "How much do logits and loss take?");
    uint64_t bytes = 0;
    for (const AttributedUse& use : moment_.uses)
      if (use.is_loss || use.stage == Stage::kLoss) bytes += use.bytes;
    check.evidence = absl::StrCat("logits and loss: ", OfPeak(bytes));
    if (!HasPercent(bytes, bytes_, kPercentWorth)) return check;
    check.outcome = CheckOutcome::kFound;
    check.action = "compute the loss in chunks over the tokens, or with a fused linear and cross-entropy kernel";
    SaveAll(bytes, PeakPart::kLoss, &check);
    return check;
  }

  Check Outside() const {
    Check check = AskOfPeak("outside_pytorch", "How much CUDA memory of this process is not PyTorch's?");
    if (UsesTorch(device_) && ImportInfoOf(input_.analysis->process.settings).any()) {
      check.outcome = CheckOutcome::kUnknown;
      check.evidence = "this file is of PyTorch's own allocator";
      return check;
    }
    const MemoryBreakdown& parts = device_.breakdown_at_peak;
    check.evidence = absl::StrCat(FormatBytes(device_.peak_other.bytes), " at most");
    absl::StrAppend(&check.evidence, MostText(parts.other, input_));
    if (!UsesTorch(device_) || !HasPercent(device_.peak_other.bytes, device_.peak_total.bytes, kPercentWorth))
      return check;
    check.outcome = CheckOutcome::kFound;
    check.action = "gpumemshim peak --measure total names who holds it";
    check.saving = {SavingBasis::kUnknown, 0};
    return check;
  }

  Check OtherProcesses() const {
    Check check = AskOfPeak("other_processes", "Did other processes use this GPU?");
    if (device_.use.samples == 0) {
      check.outcome = CheckOutcome::kUnknown;
      check.evidence = "NVML was not asked";
      return check;
    }
    check.evidence = "none was seen";
    if (device_.use.neighbours.empty()) return check;
    const Neighbour& most = device_.use.neighbours.front();
    check.evidence =
        absl::StrCat(FormatCountOf(device_.use.neighbours.size(), "process", "processes"), "; most: ", most.name, " (",
                     most.pid, "), ", most.peak == 0 ? "bytes not stated" : FormatBytes(most.peak));
    if (!IsContended(device_)) return check;
    check.outcome = CheckOutcome::kFound;
    check.action = "gpumemshim report --full lists them";
    check.saving = most.peak == 0 ? Saving{SavingBasis::kUnknown, 0} : Saving{SavingBasis::kAtMost, most.peak};
    return check;
  }

  const ReportInput& input_;
  const DeviceAnalysis& device_;
  const Moment& moment_;
  Measure measure_;
  uint64_t bytes_;
  const LiveSet& live_;
  CategoryBytes categories_;
  ParameterSums model_;
  const PeakWithout* without_;
};

}  // namespace

const Moment* ExplainSubject::PeakMoment() const {
  if (device == nullptr || input->attribution == nullptr || input->attribution->moments.empty()) return nullptr;
  return input->attribution->device == device->device ? &input->attribution->moments.front() : nullptr;
}

bool IsContended(const DeviceAnalysis& device) {
  return !device.use.neighbours.empty() && device.capacity != 0 &&
         (IsNearlyFull(device) || HasPercent(device.use.peak_used, device.capacity, kNearlyFullPercent));
}

std::string MostText(const std::vector<StackUse>& stacks, const ReportInput& input) {
  const std::vector<StackGroup> lines = GroupStacks(stacks, input, /*by_stack=*/false);
  return lines.empty() ? "" : absl::StrCat("; most: ", lines[0].view.site, ", ", FormatBytes(lines[0].use.bytes));
}

std::string LargestLine(const DeviceAnalysis& device, const ReportInput& input) {
  const std::vector<StackGroup> lines =
      GroupStacks(LiveAtPeak(device, DefaultMeasure(device)).stacks, input, /*by_stack=*/false);
  const StackGroup* const line = TopLine(lines);
  return line == nullptr ? "" : line->view.site;
}

std::vector<Check> PeakChecks(const ExplainSubject& subject) {
  const Moment* const moment = subject.PeakMoment();
  if (moment == nullptr || PeakOf(*subject.device, DefaultMeasure(*subject.device)).bytes == 0) {
    Check check = AskOfPeak("recurs", "What is the peak made of?");
    check.outcome = CheckOutcome::kUnknown;
    check.evidence = "there is no GPU memory in this trace";
    return {check};
  }
  return Peak(subject, *moment).Walk();
}

}  // namespace gpumem
