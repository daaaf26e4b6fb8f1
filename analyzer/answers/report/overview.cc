// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The report's one screen: the verdict, the peak by category and by line, the curve, and nvidia-smi's number. What is
// fine takes no room.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "answers/parts/breakdown_parts.h"
#include "answers/report/cupti_words.h"
#include "answers/report/forecast_marks.h"
#include "answers/report/sections.h"
#include "answers/report/stack_rows.h"
#include "answers/report/state.h"
#include "answers/report/verdict.h"
#include "base/format.h"
#include "base/utf8.h"
#include "ledger/load/ground.h"
#include "ledger/stacks/names.h"
#include "render/cells.h"
#include "render/instants.h"
#include "trace/import_info.h"

namespace gpumem {
namespace {

constexpr int kLead = 14;
constexpr size_t kMaxCategories = 4;

// Of what the tables are.
absl::string_view SubjectOf(const ReportInput& input) {
  return GroundOf(*input.analysis).has_history() ? "peak" : "held";
}

std::string LeadOf(absl::string_view word) { return absl::StrCat("  ", PadRight(word, kLead - 2)); }

// "train_gpt  process 4242 on host, rank 0 of 8", and what is not whole.
void AddHeader(const ReportInput& input, Document* answer) {
  const std::string& program = input.analysis->process.program;
  answer->Line({{Tone::kHeading, program.empty() ? "(unknown program)" : program},
                {Tone::kAside, absl::StrCat("  ", ProcessText(input))},
                {Tone::kWarning, IsSimulated(*input.analysis) ? ", simulated GPU" : ""}});
  for (const Remark& remark : StateRemarks(input)) answer->Paragraph(LeadOf(remark.lead), remark.text, remark.tone);
  for (const Remark& remark : CuptiRemarks(input)) answer->Paragraph(LeadOf(remark.lead), remark.text, remark.tone);
  AddLimits(input, answer);
}

absl::string_view LeadOfProblem(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::kOutOfMemory:
      return "OUT OF MEMORY ";
    case VerdictKind::kGrowing:
      return "GROWING       ";
    case VerdictKind::kNearlyFull:
      return "FULL          ";
    case VerdictKind::kUnknown:
      return "NOT KNOWN     ";
    case VerdictKind::kNothing:
      return "ONLY CUPTI    ";
    default:
      return "FRAGMENTED    ";
  }
}

void AddVerdict(const Verdict& verdict, bool has_history, uint64_t pinned, Document* answer) {
  const Tone tone = verdict.kind == VerdictKind::kOutOfMemory ? Tone::kAlarm : Tone::kWarning;
  if (!verdict.problem.empty()) answer->Paragraph(LeadOfProblem(verdict.kind), verdict.problem, tone);
  if (verdict.peak.empty() && pinned != 0)
    answer->Paragraph(LeadOf("Pinned"), absl::StrCat(FormatBytes(pinned), " of host memory at most, no GPU memory"));
  if (verdict.peak.empty() && verdict.problem.empty() && pinned == 0)
    return answer->Line("  No GPU memory was allocated.");
  if (!verdict.peak.empty()) answer->Paragraph(LeadOf(has_history ? "Peak" : "Held"), verdict.peak);
  if (!verdict.mostly.empty()) answer->Paragraph(LeadOf("Mostly"), verdict.mostly);
  if (!verdict.action.empty()) answer->Paragraph(LeadOf("Do"), verdict.action);
}

std::string EvidenceText(const std::array<uint64_t, kEvidences>& bytes) {
  const auto largest = std::max_element(bytes.begin(), bytes.end());
  return *largest == 0 ? "" : std::string(EvidenceName(static_cast<Evidence>(largest - bytes.begin())));
}

void AddPeakCategories(const DeviceAnalysis& device, const ReportInput& input, Document* answer) {
  if (input.attribution == nullptr || input.attribution->moments.empty()) return;
  const Moment& moment = input.attribution->moments.front();
  if (input.attribution->device != device.device) return;
  const Measure measure = DefaultMeasure(device);
  const uint64_t peak = PeakOf(device, measure).bytes;
  const PeakCategories categories = CategoriesOfPeak(moment, measure, peak);
  const CategoryBytes& bytes = categories.bytes;
  std::vector<size_t> order;
  for (size_t i = 0; i < kCategories; ++i) {
    if (bytes[i] != 0) order.push_back(i);
  }
  if (order.empty()) return;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return bytes[a] > bytes[b]; });
  answer->Gap();
  std::vector<Page::Row> rows{
      {"bytes", ShareTitle(peak), "blocks", absl::StrCat(SubjectOf(input), " by category"), "evidence"}};
  uint64_t rest = 0, rest_count = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const size_t category = order[i];
    if (i >= kMaxCategories && order.size() > kMaxCategories + 1) {
      rest += bytes[category];
      rest_count += categories.counts[category];
      continue;
    }
    rows.push_back({FormatBytesAligned(bytes[category]), ShareCell(bytes[category], peak),
                    categories.counts[category] == 0 ? "" : FormatCount(categories.counts[category]),
                    std::string(CategoryTitle(static_cast<Category>(category))),
                    EvidenceText(categories.by_evidence[category])});
  }
  if (rest != 0)
    rows.push_back({FormatBytesAligned(rest), ShareCell(rest, peak), FormatCount(rest_count),
                    absl::StrCat("in ", order.size() - kMaxCategories, " smaller ones"), ""});
  answer->Cells({Align::kRight, Align::kRight, Align::kRight, Align::kLeft, Align::kLeft}, rows);
}

// One line a row; the operator in what lies between it and CUDA, where it is known.
void AddTopLines(const DeviceAnalysis& device, const ReportInput& input, const TextOptions& options, Document* answer) {
  const Measure measure = DefaultMeasure(device);
  const LiveSet& live = LiveAtPeak(device, measure);
  if (live.stacks.empty() || !GroundOf(*input.analysis).has_stacks) return;
  const std::vector<StackGroup> groups = GroupStacks(live.stacks, input, options.by_stack);
  const size_t shown = std::min(options.top == 0 ? groups.size() : options.top, groups.size());
  answer->Gap();
  std::vector<Page::Row> rows{
      {"bytes", ShareTitle(live.bytes), "blocks", absl::StrCat(SubjectOf(input), " by line of code")}};
  uint64_t rest = 0, rest_count = 0;
  for (size_t i = 0; i < groups.size(); ++i) {
    const StackGroup& group = groups[i];
    if (i >= shown) {
      rest += group.use.bytes;
      rest_count += group.use.count;
      continue;
    }
    const std::string operation = group.view.through.substr(0, group.view.through.find(' '));
    rows.push_back({FormatBytesAligned(group.use.bytes), ShareCell(group.use.bytes, live.bytes),
                    group.use.count == 0 ? "" : FormatCount(group.use.count),
                    absl::StrCat(group.view.site, absl::StartsWith(operation, "aten::") ? "  " : "",
                                 absl::StartsWith(operation, "aten::") ? operation : "")});
  }
  if (rest != 0)
    rows.push_back({FormatBytesAligned(rest), ShareCell(rest, live.bytes), FormatCount(rest_count),
                    absl::StrCat("in ", FormatCountOf(groups.size() - shown, "other line", "other lines"))});
  answer->Cells({Align::kRight, Align::kRight, Align::kRight, Align::kLeft}, rows);
}

// What the driver takes for contexts and code is in no peak: there may have been more of it at the end.
const MemoryBreakdown& FullestBreakdown(const DeviceAnalysis& device) {
  const MemoryBreakdown &peak = device.breakdown_at_peak, &end = device.breakdown_at_end;
  if (!peak.any || !end.any || end.process == kNotStated) return peak.any ? peak : end;
  return peak.process == kNotStated || end.process > peak.process ? end : peak;
}

// "nvidia-smi 10.0 GiB = 9.52 GiB reserved by PyTorch + 512 MiB CUDA context", at its highest.
void AddProcessTotal(const DeviceAnalysis& device, const ReportInput& input, Document* answer) {
  const MemoryBreakdown& peak = FullestBreakdown(device);
  if (!peak.any || peak.process == kNotStated) return;
  uint64_t reserved = 0;
  std::vector<std::pair<std::string, uint64_t>> others;  // what a library asked for in several places is one here
  const std::vector<BreakdownPart> all = PartsOf(peak, input);
  std::vector<LibraryPart> asked;
  for (const BreakdownPart& part : all) asked.push_back(part.asked);
  for (const BreakdownPart& part : all) {
    const std::string label = part.asked.library.empty() ? part.label.substr(0, part.label.find(','))
                                                         : LibraryTitle(asked, part.asked.library);
    if (absl::StartsWith(part.name, "pytorch_")) {
      reserved += part.bytes;
    } else if (!others.empty() && others.back().first == label) {
      others.back().second += part.bytes;
    } else if (part.bytes != 0) {
      others.emplace_back(label, part.bytes);
    }
  }
  std::vector<std::string> parts;
  for (const auto& [label, bytes] : others) parts.push_back(absl::StrCat(FormatBytes(bytes), " ", label));
  if (reserved != 0) parts.insert(parts.begin(), absl::StrCat(FormatBytes(reserved), " reserved by PyTorch"));
  if (peak.unexplained > 0)
    parts.push_back(absl::StrCat(FormatBytes(static_cast<uint64_t>(peak.unexplained)), " unexplained"));
  answer->Paragraph(LeadOf("nvidia-smi"),
                    absl::StrCat("up to ", FormatBytes(peak.process), " = ", absl::StrJoin(parts, " + ")));
}

bool IsByTorchLoad(uint64_t stack, const ReportInput& input) {
  for (const ResolvedFrame& frame : input.stacks->Frames(stack))
    if (frame.python && frame.short_function == "load" && absl::EndsWith(frame.file, "/torch/serialization.py"))
      return true;
  return false;
}

// "; all of it by torch.load in train.py:22 rank1: map_location puts it where its model is": a checkpoint goes back to
// the device that it was saved from, unless one says where to.
std::string LoadedText(const DeviceAnalysis& device, const ReportInput& input) {
  const std::vector<StackUse>& stacks = LiveAtPeak(device, DefaultMeasure(device)).stacks;
  if (stacks.empty() || stacks.size() > kMaxStacksGrouped ||
      !std::all_of(stacks.begin(), stacks.end(),
                   [&](const StackUse& use) { return IsByTorchLoad(use.stack_id, input); }))
    return "";
  const std::vector<StackGroup> lines = GroupStacks(stacks, input, /*by_stack=*/false);
  return absl::StrCat("; all of it by torch.load in ", lines.front().view.site,
                      ": map_location puts it where its model is");
}

void AddOtherDevices(const DeviceAnalysis& shown, const ReportInput& input, Document* answer) {
  for (const DeviceAnalysis& device : input.analysis->devices) {
    const SeriesPeak& peak = PeakOf(device, DefaultMeasure(device));
    if (device.device == shown.device || peak.bytes == 0) continue;
    answer->Paragraph(LeadOf(DeviceLabel(device.device)),
                      absl::StrCat("peak ", BoundedBytes(device.bound, peak.bytes), " ", AtPeak(peak.time_ns, input),
                                   LoadedText(device, input), "; gpumemshim report --device ", device.device));
  }
}

// "22,192 events in 1.38 s, none dropped; SimCUDA H200 139.8 GiB".
void AddRecorded(const ReportInput& input, Document* answer) {
  const Analysis& analysis = *input.analysis;
  const std::vector<std::string> losses = LossLines(input);
  std::string text = EventsText(input);
  if (losses.empty() && analysis.damage.empty() && !ImportInfoOf(analysis.process.settings).any())
    absl::StrAppend(&text, analysis.end_unknown ? ", none known to be dropped" : ", none dropped");
  if (const DeviceAnalysis* const device = DeviceOfVerdict(input)) {
    absl::StrAppend(&text, "; ", device->name.empty() ? DeviceLabel(device->device) : device->name);
    if (device->capacity != 0) absl::StrAppend(&text, " ", FormatBytes(device->capacity));
  }
  answer->Paragraph(LeadOf("Recorded"), text);
  for (const std::string& line : losses) answer->Paragraph(LeadOf("Dropped"), line, Tone::kAlarm);
}

void AddMore(const ReportInput& input, Document* answer) {
  const size_t notes = input.analysis->notes.size();
  answer->Line(absl::StrCat(LeadOf("More"), "gpumemshim report --full", input.trace_argument.empty() ? "" : " ",
                            input.trace_argument,
                            notes == 0 ? "" : absl::StrCat(", with ", FormatCountOf(notes, "note", "notes"))));
}

}  // namespace

void AddOverview(const ReportInput& input, const TextOptions& options, Document* answer) {
  AddHeader(input, answer);
  const bool has_history = GroundOf(*input.analysis).has_history();
  AddVerdict(MakeVerdict(input), has_history, input.analysis->host_pinned_peak, answer);
  if (const DeviceAnalysis* const device = DeviceOfVerdict(input)) {
    AddOtherDevices(*device, input, answer);
    AddPeakCategories(*device, input, answer);
    AddTopLines(*device, input, options, answer);
    if (has_history) AddTimeline(*device, input, Detail::kBrief, answer);
    AddProcessTotal(*device, input, answer);
  }
  for (const std::string& line : ForecastLines(input.analysis->marks.entries(), input))
    answer->Paragraph(LeadOf("Forecast"), line, Tone::kAlarm);
  AddRecorded(input, answer);
  AddMore(input, answer);
}

}  // namespace gpumem
