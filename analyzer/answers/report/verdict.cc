// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/report/verdict.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "answers/oom/oom_story.h"
#include "answers/parts/library_parts.h"
#include "answers/report/cupti_words.h"
#include "answers/report/failure_words.h"
#include "answers/report/leak_words.h"
#include "answers/report/owner_words.h"
#include "answers/report/remedies.h"
#include "answers/report/reserve_causes.h"
#include "answers/report/sections.h"
#include "answers/report/stack_rows.h"
#include "answers/report/what_if.h"
#include "base/format.h"
#include "gpumem/trace.pb.h"
#include "ledger/load/ground.h"
#include "ledger/stacks/names.h"
#include "render/cells.h"
#include "render/instants.h"
#include "trace/import_info.h"

namespace gpumem {
namespace {

constexpr uint64_t kWastePercent = 5, kWastePercentWhenFull = 2;  // of reserved
constexpr uint64_t kLeastWaste = uint64_t{64} << 20, kLeastLocal = uint64_t{256} << 20;
constexpr uint64_t kRecursPercent = 98, kRemedyPercent = 5;  // of the peak
constexpr size_t kMaxRanges = 3;

// The moment of the peak, where its categories are known.
const Moment* MomentOfPeak(const ReportInput& input, const DeviceAnalysis& device) {
  if (input.attribution == nullptr || input.attribution->moments.empty()) return nullptr;
  return input.attribution->device == device.device ? &input.attribution->moments.front() : nullptr;
}

// "; recurs in steps 3-12, 20".
std::string RecursText(const ReportInput& input, uint64_t peak, uint64_t step_of_peak) {
  if (input.attribution == nullptr || step_of_peak == 0) return "";
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (const AttributedStep& each : input.attribution->steps) {
    const uint64_t number = each.step.number;
    if (number == step_of_peak || !HasPercent(each.step.peak.values.allocated, peak, kRecursPercent)) continue;
    if (!ranges.empty() && ranges.back().second + 1 == number) {
      ranges.back().second = number;
    } else {
      ranges.emplace_back(number, number);
    }
  }
  if (ranges.empty()) return "";
  std::vector<std::string> words;
  for (const auto& [from, to] : ranges) {
    if (words.size() == kMaxRanges) break;
    words.push_back(from == to ? absl::StrCat(from) : absl::StrCat(from, "-", to));
  }
  const bool is_one = ranges.size() == 1 && ranges[0].first == ranges[0].second;
  return absl::StrCat("; recurs in ", is_one ? "step " : "steps ", absl::StrJoin(words, ", "),
                      ranges.size() > kMaxRanges ? " and later" : "");
}

// At the device's own peak most of what the program held was not PyTorch's, nor became so later.
bool IsMostlyBeside(const DeviceAnalysis& device) {
  return DefaultMeasure(device) == Measure::kAllocated && device.bound == PeakBound::kExact &&
         device.at_peak_total.values.other > device.peak_reserved.bytes;
}

// "; kernels' local memory took 16.24 GiB more (64 KiB a thread)", where that is much.
std::string LocalMemoryText(const DeviceAnalysis& device) {
  const DriverUse &peak = device.breakdown_at_peak.driver, &end = device.breakdown_at_end.driver;
  const DriverUse& driver = peak.local >= end.local ? peak : end;
  if (driver.local < kLeastLocal || driver.local < device.peak_reserved.bytes / 4) return "";
  return absl::StrCat("; kernels' local memory took ", FormatBytes(driver.local), " more (",
                      FormatBytes(driver.local_thread), " a thread)");
}

// "; with 480 MiB beside PyTorch 548 MiB at 1.213 s".
std::string BesideText(const DeviceAnalysis& device, const ReportInput& input) {
  if (!IsMostlyBeside(device)) return "";
  return absl::StrCat("; with ", FormatBytes(device.at_peak_total.values.other), " beside PyTorch ",
                      FormatBytes(device.peak_total.bytes), " ", AtPeak(device.peak_total.time_ns, input));
}

// Where the oldest files of a series were deleted: a peak in them is not known.
std::string GoneText(const Analysis& analysis) {
  const uint64_t gone = analysis.series.first_number > 1 ? analysis.series.events_before : 0;
  if (gone == 0) return "";
  return absl::StrCat("; before it ", FormatCountOf(gone, "event is", "events are"),
                      " gone, perhaps a higher peak with them");
}

std::string PeakText(const DeviceAnalysis& device, const ReportInput& input) {
  const Measure measure = DefaultMeasure(device);
  const SeriesPeak& peak = PeakOf(device, measure);
  const LiveSet& live = LiveAtPeak(device, measure);
  const Moment* const moment = MomentOfPeak(input, device);
  // Blocks lie in segments: where there are none, nobody told of them (a profile, for one).
  const std::string reserved = device.peak_reserved.bytes == 0
                                   ? "reserved not recorded"
                                   : absl::StrCat(FormatBytes(live.values.reserved), " reserved");
  const std::string bytes = BoundedBytes(device.bound, peak.bytes);
  std::string text = measure == Measure::kAllocated ? absl::StrCat(bytes, " allocated, ", reserved)
                                                    : absl::StrCat(bytes, " of CUDA memory");
  if (input.analysis->devices.size() > 1) absl::StrAppend(&text, " on ", DeviceLabel(device.device));
  absl::StrAppend(&text, " ", AtPeak(peak.time_ns, input));
  if (!GroundOf(*input.analysis).has_history()) return text;
  absl::StrAppend(&text, WhenText(live, input));
  if (moment != nullptr && moment->step != 0)
    absl::StrAppend(&text, ", step ", moment->step, RecursText(input, peak.bytes, moment->step));
  return absl::StrCat(text, BesideText(device, input), LocalMemoryText(device), GoneText(*input.analysis));
}

// What most of it is, where that is not PyTorch's.
std::string MostlyBesideText(const DeviceAnalysis& device, const ReportInput& input) {
  const std::vector<StackGroup> lines = GroupStacks(device.breakdown_at_peak.other, input, /*by_stack=*/false);
  if (lines.empty()) return "";
  const StackGroup* const line = TopLine(lines);
  const std::string library = LibraryOfMost(device.breakdown_at_peak, input);
  const std::string share = ShareCell(device.at_peak_total.values.other, device.peak_total.bytes);
  return absl::StrCat(
      "CUDA memory beside PyTorch (", share,
      library.empty() ? " of the peak)" : absl::StrCat(" of the peak), of ", library),
      line == nullptr ? "" : absl::StrCat("; top line ", line->view.site, ", ", FormatBytes(line->use.bytes)));
}

std::string MostlyText(const DeviceAnalysis& device, const ReportInput& input) {
  if (IsMostlyBeside(device)) return MostlyBesideText(device, input);
  const Measure measure = DefaultMeasure(device);
  const uint64_t peak = PeakOf(device, measure).bytes;
  std::string text;
  if (const Moment* const moment = MomentOfPeak(input, device)) {
    const CategoryBytes bytes = CategoriesOfPeak(*moment, measure, peak).bytes;
    const auto largest = std::max_element(bytes.begin(), bytes.end());
    if (*largest != 0) {
      const auto category = static_cast<Category>(largest - bytes.begin());
      absl::StrAppend(&text, CategoryTitle(category), " (", ShareCell(*largest, peak), " of the peak)");
    }
  }
  const std::vector<StackGroup> lines = GroupStacks(LiveAtPeak(device, measure).stacks, input, /*by_stack=*/false);
  const StackGroup* const line = TopLine(lines);
  const bool is_before = line != nullptr && absl::StartsWith(line->view.site, "allocated before ");
  if (line != nullptr && (is_before || GroundOf(*input.analysis).has_stacks)) {
    const std::string &site = line->view.site, bytes = FormatBytes(line->use.bytes);
    absl::StrAppend(&text, text.empty() ? "" : "; ",
                    is_before ? absl::StrCat(bytes, " ", site) : absl::StrCat("top line ", site, ", ", bytes));
  }
  return text;
}

void JudgeOom(const OomEvent& oom, const ReportInput& input, Verdict* verdict) {
  verdict->kind = VerdictKind::kOutOfMemory;
  verdict->problem = FailureText(oom, input);
  verdict->action = FailureActionText(oom, input);
}

// "expandable_segments:True would reserve 9.62 GiB instead of 17.51 GiB (replayed)"; "" where no remedy is known, or
// all save hardly anything.
std::string RemedyText(const DeviceAnalysis& device, const ReportInput& input, uint64_t least_percent) {
  const std::vector<ReserveRemedy> remedies = Remedies(device, input, least_percent);
  return remedies.empty() ? "" : remedies.front().text;
}

// What lives too long, and what it would save; "" where nothing does, or that was not counted.
std::string TooLongText(const DeviceAnalysis& device, const ReportInput& input) {
  const std::vector<Remedy> remedies = RemediesOfPeak(input, device, kRemedyPercent);
  if (remedies.empty()) return "";
  const std::string& site = remedies.front().site;
  return absl::StrCat(site.empty() ? "" : absl::StrCat(site, ": "), SentenceOf(remedies.front()));
}

std::string GrowthText(const ReportInput& input, int device) {
  const std::string part = PartThatGrows(*input.leaks, device, input);
  return absl::StrCat(part, part.empty() ? "" : ": ", LeakHeadline(*input.leaks, device));
}

void JudgeGrowth(const DeviceAnalysis& device, const ReportInput& input, Verdict* verdict) {
  verdict->kind = input.leaks->misses_events ? VerdictKind::kUnknown : VerdictKind::kGrowing;
  verdict->problem = GrowthText(input, device.device);
  const LeakRow& worst = RowToSay(LeaksOf(*input.leaks, device.device)->rows);
  if (worst.kind == LeakKind::kAllocator) {
    if (const std::string where = StrandedText(device, input); !where.empty())
      absl::StrAppend(&verdict->problem, "; ", where);
  }
  if (worst.kind == LeakKind::kAllocator && input.what_if != nullptr) {
    const std::string setting = RemedyText(device, input, kWastePercent);
    const std::string too_long = TooLongText(device, input);
    verdict->action =
        !setting.empty() && !too_long.empty() ? absl::StrCat(too_long, "; or ", setting)
        : !setting.empty()                    ? setting
        : IsReplayOf(*input.what_if, device) && input.what_if->other.why_not.empty()
            ? "expandable segments would not help (replayed); gpumemshim fragmentation shows where it lies"
            : LeakRemark(worst, *input.leaks);
    return;
  }
  const bool says_little =
      worst.kind == LeakKind::kMemory && !worst.is_replaced && worst.candidate.line == 0 && !MainOwner(worst);
  verdict->action = says_little
                        ? absl::StrCat("gpumemshim leaks shows what grows, by line; the largest is ", KeptByText(worst))
                        : LeakRemark(worst, *input.leaks);
}

void JudgeHostGrowth(const ReportInput& input, Verdict* verdict) {
  verdict->kind = input.leaks->misses_events ? VerdictKind::kUnknown : VerdictKind::kGrowing;
  verdict->problem = GrowthText(input, kHostDevice);
  verdict->action = LeakRemark(LeaksOf(*input.leaks, kHostDevice)->rows[0], *input.leaks);
}

uint64_t HighestPeak(const DeviceAnalysis& device) {
  return std::max({device.peak_total.bytes, device.peak_reserved.bytes, device.peak_allocated.bytes});
}

// What the program held at its highest, by whatever is said of it: what was recorded on any layer, with contexts, and
// what the device showed.
uint64_t HeldAtMost(const DeviceAnalysis& device) {
  const MemoryBreakdown& at_peak = device.breakdown_at_peak;
  uint64_t held = std::max(HighestPeak(device), device.use.peak_own);
  if (at_peak.any) held = std::max(held, at_peak.Explained());
  return at_peak.any && at_peak.process != kNotStated ? std::max(held, at_peak.process) : held;
}

// More is counted than there is.
void JudgeImpossible(const DeviceAnalysis& device, uint64_t held, Verdict* verdict) {
  verdict->kind = VerdictKind::kUnknown;
  verdict->problem =
      absl::StrCat(FormatBytes(held), " are counted on ", DeviceLabel(device.device), ", which has ",
                   FormatBytes(device.capacity), ": frees are missing from this trace, so its peaks are too high");
  verdict->action = "not known; gpumemshim report --full shows what is missing";
}

void JudgeFull(const DeviceAnalysis& device, const ReportInput& input, const std::string& left, Verdict* verdict) {
  verdict->kind = VerdictKind::kNearlyFull;
  verdict->problem = absl::StrCat(left, " of ", FormatBytes(device.capacity), " was left");
  const std::string remedy = TooLongText(device, input);
  verdict->action = remedy.empty() ? "gpumemshim explain says what each change would save" : remedy;
  if (const std::string setting = RemedyText(device, input, kWastePercentWhenFull); !setting.empty()) {
    verdict->kind = VerdictKind::kFragmented;
    absl::StrAppend(&verdict->problem, ", and ", FormatBytes(WasteOf(device)),
                    " was reserved beyond what was allocated at most");
    if (remedy.empty()) verdict->action = setting;
  }
}

void JudgeRoom(const DeviceAnalysis& device, const ReportInput& input, Verdict* verdict) {
  // Blocks that were lost leave holes which are none.
  const bool is_exact = device.bound == PeakBound::kExact;
  const std::string setting = is_exact ? RemedyText(device, input, kWastePercent) : "";
  const std::string remedy = is_exact ? TooLongText(device, input) : "";
  if (!is_exact) verdict->kind = VerdictKind::kUnknown;
  // What others recorded is of PyTorch alone, and may not say what it reserved.
  const bool is_imported = ImportInfoOf(input.analysis->process.settings).any();
  if (device.capacity == 0 || (is_imported && device.peak_reserved.bytes == 0)) {
    verdict->action = remedy.empty() ? setting : remedy;
    if (verdict->action.empty())
      verdict->action = GroundOf(*input.analysis).has_stacks
                            ? "gpumemshim peak shows the stacks behind it"
                            : "for who allocates, record the program: gpumemshim run -- COMMAND";
    return;
  }
  if (const uint64_t counted = HighestPeak(device); counted > device.capacity)
    return JudgeImpossible(device, counted, verdict);
  const uint64_t free = device.capacity - std::min(HeldAtMost(device), device.capacity);
  const bool is_least = device.bound == PeakBound::kAtLeast || (is_exact && is_imported);
  const absl::string_view bound = is_least ? "at most " : is_exact ? "" : "about ";
  if (IsNearlyFull(device)) return JudgeFull(device, input, absl::StrCat(bound, FormatBytes(free)), verdict);
  verdict->action = absl::StrCat(
      is_exact ? "nothing: " : "not known, events are missing: ", is_imported ? "PyTorch" : "this program", " left ",
      bound, FormatBytes(free), " of ", DeviceLabel(device.device), " free (", ShareCell(free, device.capacity), ")");
  if (!remedy.empty() || !setting.empty())
    absl::StrAppend(&verdict->action, "; where that is too little, ", !remedy.empty() ? remedy : setting);
}

// Nothing is known of what came before and after.
void JudgeMoment(const ReportInput& input, Verdict* verdict) {
  verdict->kind = VerdictKind::kUnknown;
  verdict->action = absl::StrCat("for the peak and what grows, ",
                                 ImportInfoOf(input.analysis->process.settings).recorder == "PyTorch"
                                     ? "call torch.cuda.memory._record_memory_history() before the program allocates"
                                     : "record the program: gpumemshim run -- COMMAND");
}

}  // namespace

absl::string_view VerdictName(VerdictKind kind) {
  constexpr std::array<absl::string_view, 7> kNames = {"nothing",     "fits",    "unknown",      "fragmented",
                                                       "nearly_full", "growing", "out_of_memory"};
  return kNames[static_cast<size_t>(kind)];
}

PeakCategories CategoriesOfPeak(const Moment& moment, Measure measure, uint64_t bytes) {
  PeakCategories peak{moment.categories, moment.counts, moment.by_evidence};
  if (measure != Measure::kAllocated) return peak;
  // Allocated is PyTorch's: what libraries take of CUDA themselves has categories, too, and lies beyond.
  peak = {};
  for (const AttributedUse& use : moment.uses) {
    if (use.layer != trace::TORCH) continue;
    const size_t category = static_cast<size_t>(use.category);
    peak.bytes[category] += use.bytes;
    peak.counts[category] += use.count;
    peak.by_evidence[category][static_cast<size_t>(use.evidence)] += use.bytes;
  }
  const uint64_t known = std::accumulate(peak.bytes.begin(), peak.bytes.end(), uint64_t{0});
  const uint64_t whole = std::max(moment.values.allocated, bytes);
  if (known < whole) peak.bytes[static_cast<size_t>(Category::kUnknown)] += whole - known;
  return peak;
}

uint64_t WasteOf(const DeviceAnalysis& device) {
  return device.peak_reserved.bytes - std::min(device.peak_reserved.bytes, device.peak_allocated.bytes);
}

bool IsNearlyFull(const DeviceAnalysis& device) {
  return device.capacity != 0 &&
         HasPercent(std::min(HeldAtMost(device), device.capacity), device.capacity, kNearlyFullPercent);
}

bool IsWorthReplay(const ReportInput& input, const DeviceAnalysis& device) {
  const uint64_t waste = WasteOf(device);
  return device.bound == PeakBound::kExact && GroundOf(*input.analysis).covers == Covers::kRun &&
         waste >= kLeastWaste &&
         HasPercent(waste, device.peak_reserved.bytes, IsNearlyFull(device) ? kWastePercentWhenFull : kWastePercent);
}

bool IsReplayOf(const WhatIfAnswer& what_if, const DeviceAnalysis& device) {
  return what_if.is_replayed() && what_if.not_followed.empty() && what_if.device == device.device &&
         what_if.recorded.peak_reserved == device.peak_reserved.bytes;
}

uint64_t ReplayedSaving(const WhatIfAnswer* what_if, const DeviceAnalysis& device) {
  if (what_if == nullptr || !IsReplayOf(*what_if, device) || !what_if->other.why_not.empty()) return 0;
  const uint64_t recorded = device.peak_reserved.bytes;
  return recorded - std::min(recorded, what_if->other.peak_reserved);
}

const DeviceAnalysis* DeviceOfVerdict(const ReportInput& input) {
  const OomEvent* const oom = OomToExplain(input.analysis->ooms);
  for (const DeviceAnalysis& device : input.analysis->devices) {
    if (oom != nullptr && oom->final && device.device == oom->device) return &device;
  }
  return LargestDevice(*input.analysis);
}

Verdict MakeVerdict(const ReportInput& input) {
  Verdict verdict;
  const DeviceAnalysis* const device = DeviceOfVerdict(input);
  if (device != nullptr && PeakOf(*device, DefaultMeasure(*device)).bytes != 0) {
    verdict.kind = VerdictKind::kFits;
    verdict.peak = PeakText(*device, input);
    verdict.mostly = MostlyText(*device, input);
    if (!GroundOf(*input.analysis).has_history()) {
      JudgeMoment(input, &verdict);
    } else if (GrowsEnough(input, *device)) {
      JudgeGrowth(*device, input, &verdict);
    } else if (HostGrowsEnough(input)) {
      JudgeHostGrowth(input, &verdict);
    } else {
      JudgeRoom(*device, input, &verdict);
    }
  }
  const OomEvent* const oom = OomToExplain(input.analysis->ooms);
  if (oom != nullptr && oom->final) JudgeOom(*oom, input, &verdict);
  if (verdict.kind != VerdictKind::kNothing) return verdict;
  if (const std::string only = OnlyCuptiText(input.analysis->cupti); !only.empty()) {
    verdict.problem = absl::StrCat("the recorder saw no allocation; ", only);
    verdict.action = "see docs/coverage.md for how calls go past the recorder";
  }
  return verdict;
}

}  // namespace gpumem
