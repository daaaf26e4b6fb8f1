// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/views/view_input.h"

#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "answers/report/trace_answer.h"
#include "base/format.h"
#include "ledger/stacks/names.h"

namespace gpumem {
namespace {

std::string DeviceList(const ViewInput& input) {
  const std::vector<AggregatedDevice>& devices = input.aggregated->devices;
  return devices.empty() ? "no GPU"
                         : absl::StrJoin(devices, ", ", [](std::string* out, const AggregatedDevice& device) {
                             absl::StrAppend(out, DeviceLabel(device.device));
                           });
}

bool IsOfProcess(const ViewInput& input) {
  const std::vector<AggregatedDevice>& devices = input.aggregated->devices;
  return !devices.empty() && IsOfProcess(devices[0].measure);
}

// "on GPU 0, GPU 1", "of pinned host memory"
std::string Where(const ViewInput& input) {
  return IsOfProcess(input) ? absl::StrCat("of ", ViewMeasureText(input.aggregated->devices[0].measure))
                            : absl::StrCat("on ", DeviceList(input));
}

std::string PeakTitle(const ViewInput& input) {
  const std::vector<AggregatedDevice>& devices = input.aggregated->devices;
  if (devices.size() == 1) {
    const AggregatedDevice& device = devices[0];
    const std::string when =
        device.bytes == 0 ? "" : absl::StrCat(" at ", FormatTime(input.report.Since(device.time_ns)));
    return absl::StrCat("Peak ", IsOfProcess(input) ? "" : absl::StrCat(ViewMeasureName(device.measure), " "),
                        Where(input), ": ", FormatBytes(device.bytes), when);
  }
  return absl::StrCat("Peaks of ", DeviceList(input), ", each at its own time");
}

std::string WindowText(const ViewInput& input) {
  const AnalyzeOptions& asked = input.report.asked;
  if (asked.from_ns == 0 && asked.to_ns == UINT64_MAX) return "";
  return absl::StrCat(" between ", FormatTime(input.report.Since(input.report.window_start_ns())), " and ",
                      FormatTime(input.report.Since(input.report.window_end_ns())));
}

// Where stacks are apart by size too, one of several sizes is one.
size_t StackCount(const ViewInput& input) {
  const std::vector<AggregatedStack>& stacks = input.aggregated->stacks;
  if (!input.selection->by_size) return stacks.size();
  absl::flat_hash_set<std::tuple<uint64_t, int, uint32_t>> distinct;
  for (const AggregatedStack& stack : stacks) distinct.emplace(stack.stack_id, stack.device, stack.thread);
  return distinct.size();
}

// "PyTorch's blocks: 689 in 54 stacks, 220 a second"
std::string CountText(const ViewInput& input) {
  const AggregatedStacks& aggregated = *input.aggregated;
  std::string text =
      aggregated.devices.empty() ? "" : absl::StrCat(ViewMeasureText(aggregated.devices[0].measure), ": ");
  absl::StrAppend(&text, FormatCount(aggregated.all.count));
  if (aggregated.shown == aggregated.all)
    absl::StrAppend(&text, " in ", FormatCountOf(StackCount(input), "stack", "stacks"));
  const uint64_t window_ns = input.report.window_end_ns() - input.report.window_start_ns();
  if (aggregated.mode == ViewMode::kTotal && window_ns > 0) {
    const double rate = 1e9 * static_cast<double>(aggregated.all.count) / static_cast<double>(window_ns);
    absl::StrAppend(&text, ", ", FormatCount(static_cast<uint64_t>(rate + 0.5)), " a second");
  }
  return text;
}

void AddLeftOut(const ViewInput& input, Document* answer) {
  const AggregatedStacks& aggregated = *input.aggregated;
  if (aggregated.shown != aggregated.all) {
    const double ratio = aggregated.all.bytes == 0
                             ? 0
                             : static_cast<double>(aggregated.shown.bytes) / static_cast<double>(aggregated.all.bytes);
    answer->Line(absl::StrCat("  ", FormatBytes(aggregated.shown.bytes), " of it (", FormatPercent(ratio), "), in ",
                              FormatCountOf(aggregated.shown.count, "allocation", "allocations"), ", is in ",
                              FormatCountOf(StackCount(input), "stack that matches", "stacks that match")),
                 Tone::kAside);
  }
  if (aggregated.merged_entries > 0) {
    answer->Line(
        absl::StrCat("  ", FormatBytes(aggregated.merged.bytes), " of it, in ", FormatCount(aggregated.merged_entries),
                     " of the smallest stacks, is merged: there are too many"),
        Tone::kWarning);
  }
  const size_t known = input.report.analysis->devices.size();
  if (aggregated.devices.size() == 1 && known > 1 && !IsOfProcess(input)) {
    answer->Line(absl::StrCat("  ", FormatCountOf(known - 1, "other GPU has", "other GPUs have"),
                              " a peak of its own: --device N, or --split device"),
                 Tone::kAside);
  }
}

Datum ViewDatum(const ViewInput& input) {
  constexpr char kAll[] = "of all that was selected, before the filters by name";
  constexpr char kShown[] = "of what those filters left";
  constexpr char kMerged[] = "of the smallest stacks, where there were too many to keep apart; part of `bytes`";
  const AggregatedStacks& aggregated = *input.aggregated;
  std::vector<Datum> devices;
  for (const AggregatedDevice& device : aggregated.devices) {
    devices.push_back(Datum::Object({{"device", Datum::If(device.device != kProcess, device.device)},
                                     {"measure", ViewMeasureName(device.measure)},
                                     {"time_ns", input.report.Since(device.time_ns)}},
                                    JsonLayout::kOneLine));
  }
  return Datum::Object(
      {{"mode", ViewModeName(aggregated.mode), "`peak`, `leaks`, `total`, `temporary` or `average`"},
       {"devices", Datum::List(std::move(devices)),
        "of the view: objects with `device` (null: the process), `measure` (`allocated`, `reserved`, `total`, `held`, "
        "`pinned`, `managed` or `imported`) and `time_ns`, of the peak or of the end"},
       {"temporary_threshold", input.selection->temporary_threshold, "N of `temporary`"},
       {"window_ns", input.report.window_end_ns() - input.report.window_start_ns(),
        "length of the time that the view is of; with the bytes of `average`, bytes x lifetime is their product"},
       {"bytes", aggregated.all.bytes, kAll},
       {"count", aggregated.all.count, kAll},
       {"shown_bytes", aggregated.shown.bytes, kShown},
       {"shown_count", aggregated.shown.count, kShown},
       {"stack_count", aggregated.stacks.size(),
        "distinct stacks, counted apart for each GPU and thread (and size, in `sizes`)"},
       {"merged_bytes", aggregated.merged.bytes, kMerged},
       {"merged_count", aggregated.merged.count, kMerged}});
}

}  // namespace

std::string ViewTitle(const ViewInput& input) {
  const AggregatedStacks& aggregated = *input.aggregated;
  const std::string bytes = FormatBytes(aggregated.all.bytes);
  switch (aggregated.mode) {
    case ViewMode::kPeak:
      return PeakTitle(input);
    case ViewMode::kLeaks: {
      const bool ends_early = input.report.asked.to_ns < input.report.Since(input.report.analysis->end_ns);
      const std::string since = input.report.asked.from_ns == 0
                                    ? ""
                                    : absl::StrCat(" of what was allocated after ",
                                                   FormatTime(input.report.Since(input.report.window_start_ns())));
      return absl::StrCat("Not freed at ",
                          ends_early ? FormatTime(input.report.Since(input.report.window_end_ns())) : "the end", since,
                          ", ", Where(input), ": ", bytes);
    }
    case ViewMode::kTotal:
      return absl::StrCat("Total allocated", WindowText(input), " ", Where(input), ": ", bytes);
    case ViewMode::kTemporary:
      return absl::StrCat("Freed after at most ",
                          FormatCountOf(input.selection->temporary_threshold, "other", "others"), WindowText(input),
                          ", ", Where(input), ": ", bytes);
    case ViewMode::kAverage:
      return absl::StrCat("Held on average", WindowText(input), " ", Where(input), ": ", bytes);
  }
  return "";
}

Document ViewAnswer(absl::string_view command, const ViewInput& input) {
  const AggregatedStacks& aggregated = *input.aggregated;
  Document answer = TraceAnswer(command, input.report);
  answer.Field("view", ViewDatum(input), "object: what is shown, below");
  answer.Gap();
  answer.Line(ViewTitle(input), Tone::kHeading);
  std::string counted = absl::StrCat("  ", CountText(input));
  if (aggregated.mode == ViewMode::kPeak && aggregated.devices.size() == 1 &&
      aggregated.all.bytes < aggregated.devices[0].bytes) {
    absl::StrAppend(&counted, "; together ", FormatBytes(aggregated.all.bytes),
                    ", the rest is left out by size or age");
  }
  answer.Line(counted, Tone::kAside);
  AddLeftOut(input, &answer);
  return answer;
}

}  // namespace gpumem
