// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "web/flame_about.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "answers/report/sections.h"
#include "base/format.h"
#include "ledger/stacks/names.h"
#include "web/trace_about.h"

namespace gpumem {
namespace {

const DeviceAnalysis* FindDevice(const Analysis& analysis, int index) {
  for (const DeviceAnalysis& device : analysis.devices) {
    if (device.device == index) return &device;
  }
  return nullptr;
}

Measure MeasureOf(ViewMeasure measure) {
  if (measure == ViewMeasure::kReserved) return Measure::kReserved;
  return measure == ViewMeasure::kTotal ? Measure::kTotal : Measure::kAllocated;
}

// "allocated on GPU 0", "of pinned host memory": whose peak it is.
std::string PeakOfWhat(const AggregatedDevice& device) {
  if (IsOfProcess(device.measure)) return absl::StrCat("of ", ViewMeasureText(device.measure));
  return absl::StrCat(MeasureName(MeasureOf(device.measure)), " on ", DeviceLabel(device.device));
}

std::string SizeText(const Weight& weight) {
  return absl::StrCat(FormatBytes(weight.bytes), " in ", FormatCountOf(weight.count, "block", "blocks"));
}

std::string PeakText(const AggregatedDevice& device, const Weight& weight, const FlameInput& input) {
  const ReportInput& report = *input.report;
  if (device.bytes == 0) return absl::StrCat("Peak ", PeakOfWhat(device), ": ", FormatBytes(0));
  std::string text = absl::StrCat("Peak ", PeakOfWhat(device), ": ", FormatBytes(device.bytes), " at ",
                                  FormatTime(report.Since(device.time_ns)));
  const DeviceAnalysis* const found = FindDevice(*report.analysis, device.device);
  if (found != nullptr && !IsOfProcess(device.measure))
    absl::StrAppend(&text, WhenText(LiveAtPeak(*found, MeasureOf(device.measure)), report));
  if (const std::string place = PlaceText(report.analysis->marks.At(device.time_ns)); !place.empty())
    absl::StrAppend(&text, " (", place, ")");
  if (weight.bytes == device.bytes) return absl::StrCat(text, ", ", FormatCountOf(weight.count, "block", "blocks"));
  return absl::StrCat(text, "; shown: ", SizeText(weight));
}

}  // namespace

ViewWords WordsOf(ViewMode mode, uint64_t temporary_threshold) {
  switch (mode) {
    case ViewMode::kPeak:
      return {"Peak", "what was alive at the moment when memory was highest", "Nothing was alive at the peak."};
    case ViewMode::kLeaks:
      return {"Leaks",
              "what is still alive at the end. A model and its optimizer's state are alive at the end of any training "
              "and no leak",
              "Nothing is alive at the end."};
    case ViewMode::kTotal:
      return {"Total allocated", "everything that was allocated, freed or not: who keeps the allocator busy",
              "Nothing was allocated.", "allocation", "allocations"};
    case ViewMode::kAverage:
      return {"Average",
              "bytes x lifetime, divided by the time that is shown: what was held on average. Large and short-lived "
              "memory is narrow here",
              "Nothing was held for any time.", "allocation", "allocations"};
    case ViewMode::kTemporary:
      break;
  }
  return {"Temporary",
          absl::StrCat("what was freed after at most ",
                       FormatCountOf(temporary_threshold, "other allocation", "other allocations"),
                       " of its thread: memory that could be kept and used again"),
          "No allocation was temporary.", "allocation", "allocations"};
}

std::string MomentText(const AggregatedStacks& view, const AggregatedDevice& device, const Weight& weight,
                       const FlameInput& input) {
  const bool of_process = IsOfProcess(device.measure);
  const std::string place = of_process ? "" : absl::StrCat(" on ", DeviceLabel(device.device));
  const std::string memory = absl::StrCat(" (", ViewMeasureText(device.measure), ")");
  const std::string count = FormatCountOf(weight.count, "allocation", "allocations");
  switch (view.mode) {
    case ViewMode::kPeak:
      return PeakText(device, weight, input);
    case ViewMode::kLeaks:
      return absl::StrCat("Alive at the end", place, ", ", FormatTime(input.report->Since(device.time_ns)), ": ",
                          SizeText(weight), memory);
    case ViewMode::kTotal:
      return absl::StrCat("Allocated over time", place, ": ", FormatBytes(weight.bytes), " by ", count, memory);
    case ViewMode::kAverage:
      return absl::StrCat("Held on average", place, ": ", FormatBytes(weight.bytes), ", of ", count, memory);
    case ViewMode::kTemporary:
      break;
  }
  return absl::StrCat("Freed after at most ", FormatCountOf(input.temporary_threshold, "other", "others"), place, ": ",
                      FormatBytes(weight.bytes), " by ", count, memory);
}

std::vector<Remark> FlameWarnings(const FlameInput& input, const FlameTree& tree) {
  std::vector<Remark> warnings = TraceWarnings(*input.report);
  if (!input.filters.empty()) {
    warnings.push_back(
        {"filters", absl::StrCat("Not everything is shown: ", absl::StrJoin(input.filters, " "), "."), Tone::kWarning});
  }
  for (const AggregatedStacks* view : input.views) {
    if (view->merged_entries == 0 || view->shown == view->all) continue;
    warnings.push_back(
        {"merged",
         absl::StrCat(WordsOf(view->mode, input.temporary_threshold).label, ": ", FormatBytes(view->merged.bytes),
                      " in the smallest stacks had been merged before the filters by name, which could "
                      "not look at them: they are left out."),
         Tone::kWarning});
  }
  if (!tree.threads_apart())
    warnings.push_back(
        {"threads", "Threads are not told apart: there are too many for a page of this size.", Tone::kAside});
  return warnings;
}

}  // namespace gpumem
