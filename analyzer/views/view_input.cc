// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "views/view_input.h"

#include <tuple>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/format.h"
#include "report/json_parts.h"
#include "report/names.h"
#include "report/sections.h"

namespace gpumem {
namespace {

std::string DeviceList(const ViewInput& input) {
  const std::vector<WeighedDevice>& devices = input.weighted->devices;
  return devices.empty() ? "no GPU" : absl::StrJoin(devices, ", ", [](std::string* out, const WeighedDevice& device) {
    absl::StrAppend(out, DeviceLabel(device.device));
  });
}

bool IsOfProcess(const ViewInput& input) {
  const std::vector<WeighedDevice>& devices = input.weighted->devices;
  return !devices.empty() && IsOfProcess(devices[0].weighed);
}

// "on GPU 0, GPU 1", "of pinned host memory"
std::string Where(const ViewInput& input) {
  return IsOfProcess(input) ? absl::StrCat("of ", WeighedText(input.weighted->devices[0].weighed))
                            : absl::StrCat("on ", DeviceList(input));
}

std::string PeakTitle(const ViewInput& input) {
  const std::vector<WeighedDevice>& devices = input.weighted->devices;
  if (devices.size() == 1) {
    const WeighedDevice& device = devices[0];
    const std::string when =
        device.bytes == 0 ? "" : absl::StrCat(" at ", FormatTime(input.report.Since(device.time_ns)));
    return absl::StrCat("Peak ", IsOfProcess(input) ? "" : absl::StrCat(WeighedName(device.weighed), " "), Where(input),
                        ": ", FormatBytes(device.bytes), when);
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
  const std::vector<WeightedStack>& stacks = input.weighted->stacks;
  if (!input.selection->by_size) return stacks.size();
  absl::flat_hash_set<std::tuple<uint64_t, int, uint32_t>> distinct;
  for (const WeightedStack& stack : stacks) distinct.emplace(stack.stack_id, stack.device, stack.thread);
  return distinct.size();
}

// "PyTorch's blocks: 689 in 54 stacks, 220 a second"
std::string CountText(const ViewInput& input) {
  const WeightedStacks& weighted = *input.weighted;
  std::string text = weighted.devices.empty() ? "" : absl::StrCat(WeighedText(weighted.devices[0].weighed), ": ");
  absl::StrAppend(&text, FormatCount(weighted.all.count));
  if (weighted.shown == weighted.all)
    absl::StrAppend(&text, " in ", FormatCountOf(StackCount(input), "stack", "stacks"));
  const uint64_t window_ns = input.report.window_end_ns() - input.report.window_start_ns();
  if (weighted.mode == ViewMode::kTotal && window_ns > 0) {
    const double rate = 1e9 * static_cast<double>(weighted.all.count) / static_cast<double>(window_ns);
    absl::StrAppend(&text, ", ", FormatCount(static_cast<uint64_t>(rate + 0.5)), " a second");
  }
  return text;
}

void AddLeftOut(const ViewInput& input, Page* page) {
  const WeightedStacks& weighted = *input.weighted;
  if (weighted.shown != weighted.all) {
    const double ratio = weighted.all.bytes == 0
                             ? 0
                             : static_cast<double>(weighted.shown.bytes) / static_cast<double>(weighted.all.bytes);
    page->Line(absl::StrCat("  ", FormatBytes(weighted.shown.bytes), " of it (", FormatPercent(ratio), "), in ",
                            FormatCountOf(weighted.shown.count, "allocation", "allocations"), ", is in ",
                            FormatCountOf(StackCount(input), "stack that matches", "stacks that match")),
               Tone::kAside);
  }
  if (weighted.merged_entries > 0) {
    page->Line(
        absl::StrCat("  ", FormatBytes(weighted.merged.bytes), " of it, in ", FormatCount(weighted.merged_entries),
                     " of the smallest stacks, is merged: there are too many"),
        Tone::kWarning);
  }
  const size_t known = input.report.analysis->devices.size();
  if (weighted.devices.size() == 1 && known > 1 && !IsOfProcess(input)) {
    page->Line(absl::StrCat("  ", FormatCountOf(known - 1, "other GPU has", "other GPUs have"),
                            " a peak of its own: --device N, or --split device"),
               Tone::kAside);
  }
}

}  // namespace

std::string ViewTitle(const ViewInput& input) {
  const WeightedStacks& weighted = *input.weighted;
  const std::string bytes = FormatBytes(weighted.all.bytes);
  switch (weighted.mode) {
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
      return absl::StrCat("Allocated in all", WindowText(input), " ", Where(input), ": ", bytes);
    case ViewMode::kTemporary:
      return absl::StrCat("Freed after at most ",
                          FormatCountOf(input.selection->temporary_threshold, "other", "others"), WindowText(input),
                          ", ", Where(input), ": ", bytes);
  }
  return "";
}

void AddViewHead(const ViewInput& input, Page* page) {
  const WeightedStacks& weighted = *input.weighted;
  AddHead(input.report, Detail::kBrief, page);
  page->Gap();
  page->Line(ViewTitle(input), Tone::kHeading);
  std::string counted = absl::StrCat("  ", CountText(input));
  if (weighted.mode == ViewMode::kPeak && weighted.devices.size() == 1 &&
      weighted.all.bytes < weighted.devices[0].bytes) {
    absl::StrAppend(&counted, "; together ", FormatBytes(weighted.all.bytes), ", the rest is left out by size or age");
  }
  page->Line(counted, Tone::kAside);
  AddLeftOut(input, page);
}

void WriteJsonWeight(const Weight& weight, JsonWriter* json) {
  json->Field("bytes", weight.bytes);
  json->Field("count", weight.count);
}

void WriteJsonViewHead(absl::string_view command, const ViewInput& input, JsonWriter* json) {
  const WeightedStacks& weighted = *input.weighted;
  WriteJsonCommon(command, input.report, json);
  json->Key("view");
  json->BeginObject();
  json->Field("mode", ViewModeName(weighted.mode));
  json->Key("devices");
  json->BeginArray();
  for (const WeighedDevice& device : weighted.devices) {
    json->BeginObject(JsonLayout::kOneLine);
    json->Key("device");
    device.device == kProcess ? json->Null() : json->Value(device.device);
    json->Field("measure", WeighedName(device.weighed));
    json->Field("time_ns", input.report.Since(device.time_ns));
    json->EndObject();
  }
  json->EndArray();
  json->Field("temporary_threshold", input.selection->temporary_threshold);
  WriteJsonWeight(weighted.all, json);
  json->Field("shown_bytes", weighted.shown.bytes);
  json->Field("shown_count", weighted.shown.count);
  json->Field("stack_count", weighted.stacks.size());
  json->Field("merged_bytes", weighted.merged.bytes);
  json->Field("merged_count", weighted.merged.count);
  json->EndObject();
}

}  // namespace gpumem
