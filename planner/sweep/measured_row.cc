// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/sweep/measured_row.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "answers/parts/attribution_parts.h"
#include "base/format.h"
#include "ledger/attribution/component.h"
#include "ledger/load/attribute.h"
#include "ledger/load/moment.h"

namespace gpumem::plan {
namespace {

constexpr size_t kLongestReason = 300;

double Seconds(uint64_t ns) { return static_cast<double>(ns) * 1e-9; }

// What an exception says of itself stands in the last line of a program's output.
std::string LastLine(const std::string& output) {
  const std::vector<absl::string_view> lines = absl::StrSplit(output, '\n', absl::SkipWhitespace());
  if (lines.empty()) return "";
  const std::string line(absl::StripAsciiWhitespace(lines.back()));
  return line.size() <= kLongestReason ? line : absl::StrCat(line.substr(0, kLongestReason), "…");
}

bool DiedOfMemory(const PlannedRun& run) {
  if (run.end != RunEnd::kFailed) return false;
  if (run.loaded != nullptr && !run.loaded->analysis.ooms.empty()) return true;
  return absl::StrContains(run.outcome.output, "OutOfMemoryError") ||
         absl::StrContains(run.outcome.output, "CUDA out of memory");
}

void SetState(const PlannedRun& run, SweepRow* row) {
  const std::string line = LastLine(run.outcome.output);
  if (DiedOfMemory(run)) {
    row->state = RowState::kOutOfMemory;
    row->reason = line;
    row->peak_allocated = row->peak_reserved = row->peak_process = 0;  // it got so far: what it wants is not known
  } else if (run.end == RunEnd::kTimedOut) {
    const std::string place = StuckPlace(run);
    row->state = RowState::kTimedOut;
    row->reason = absl::StrCat("its time was up", place.empty() ? "" : absl::StrCat(", at ", place));
  } else if (run.end == RunEnd::kSpins) {
    row->state = RowState::kSpins;
    row->reason = absl::StrCat("waits for a value that is not computed, at ", StuckPlace(run));
  } else if (run.end == RunEnd::kCapability) {
    row->state = RowState::kFailed;
    row->reason = "the installed PyTorch has no code for this device";
  } else if (run.end == RunEnd::kFailed) {
    row->state = RowState::kFailed;
    row->reason = run.exit_code > 128 ? absl::StrCat("died of signal ", run.exit_code - 128)
                  : line.empty()      ? absl::StrCat("exit code ", run.exit_code)
                                      : line;
  } else if (!run.answered()) {
    row->state = RowState::kNoCuda;
    row->reason = "used no CUDA device";
  } else if (row->capacity > 0 && row->peak_process > row->capacity) {
    row->state = RowState::kOutOfMemory;
    row->reason =
        absl::StrCat("needs ", FormatBytes(row->peak_process), ", ", FormatBytes(row->capacity), " are there");
  }
}

void SetPeaks(const PlannedRun& run, uint64_t capacity, SweepRow* row) {
  row->capacity = capacity;
  if (run.processes.empty()) return;
  const PlannedProcess& first = run.processes.front();
  row->steps = first.reported.steps;
  row->unknown_reads = first.reported.unknown_true + first.reported.unknown_false + first.reported.unknown_values +
                       first.reported.unknown_counts;
  row->peak_allocated = first.peaks.allocated;
  row->peak_reserved = first.peaks.reserved;
  row->peak_process = first.peaks.process;
  if (run.loaded == nullptr) return;
  row->lost_events = run.loaded->analysis.losses.Total();
  if (capacity != 0) return;
  for (const DeviceAnalysis& device : run.loaded->analysis.devices) {
    if (device.device == first.peaks.device) row->capacity = device.capacity;
  }
}

void SetTimeline(const Analysis& analysis, int number, SweepRow* row) {
  for (const DeviceAnalysis& device : analysis.devices) {
    if (device.device != number) continue;
    const uint64_t origin = analysis.origin_ns;
    for (const TimelinePoint& point : device.timeline) {
      const uint64_t since = point.time_ns > origin ? point.time_ns - origin : 0;
      row->timeline.push_back({Seconds(since), point.max.allocated, point.max.reserved, point.max.total});
    }
  }
}

void SetStages(const Attribution& attribution, SweepRow* row) {
  for (const AttributedStage& stage : attribution.stages) {
    RowStage one;
    one.name = StageLabel(stage.row, RunPartName(stage.row.part));
    one.seconds = Seconds(stage.row.time_ns);
    one.peak_allocated = stage.row.peak.values.allocated;
    one.growth_bytes = stage.row.growth_bytes;
    one.count = stage.row.count;
    row->stages.push_back(std::move(one));
  }
}

// Of what a module's calls allocated, the loss's apart.
void AddAllocated(const ModuleUse& use, const Attribution& attribution,
                  std::map<std::string, RowComponent>* components) {
  for (const bool is_loss : {false, true}) {
    const uint64_t bytes = is_loss ? use.loss_bytes : use.allocated_bytes - use.loss_bytes;
    if (bytes == 0) continue;
    const std::string& module = attribution.modules[use.module].component;
    const std::string name(ComponentOf(module, is_loss, Category::kUnknown, use.stage));
    (*components)[name].allocated[std::string(StageName(use.stage))] += bytes;
  }
}

void SetComponents(const Moment& moment, const Attribution& attribution, SweepRow* row) {
  std::map<std::string, RowComponent> components;
  for (const AttributedUse& use : moment.uses) {
    RowComponent& one = components[ComponentName(use, attribution)];
    one.at_peak[std::string(CategoryName(use.category))] += use.bytes;
  }
  for (const ModuleUse& use : attribution.module_uses) AddAllocated(use, attribution, &components);
  std::vector<std::pair<uint64_t, std::string>> order;
  for (auto& [name, one] : components) {
    one.name = name;
    uint64_t bytes = 0;
    for (const auto& [category, size] : one.at_peak) bytes += size;
    order.emplace_back(bytes, name);
  }
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  for (const auto& [bytes, name] : order) row->components.push_back(std::move(components[name]));
}

// Of the categories that are known by their tensors.
void SetTensors(const Moment& moment, SweepRow* row) {
  for (const Category category :
       {Category::kParameter, Category::kBuffer, Category::kGradient, Category::kOptimizerState, Category::kInput}) {
    if (const uint64_t bytes = moment.tensor_bytes[Index(category)]; bytes > 0)
      row->tensors[std::string(CategoryName(category))] = bytes;
  }
  uint64_t per_sample = 0;
  for (const AttributedUse& use : moment.uses) {
    if (use.part == Part::kPerSample) per_sample += use.tensor_bytes;
  }
  if (per_sample > 0) row->tensors[std::string(PartName(Part::kPerSample))] = per_sample;
}

void SetBreakdown(LoadedTrace* loaded, Console* console, SweepRow* row) {
  AttributionRequest asked;
  asked.moments = {ParseMoment("peak", *loaded)};
  asked.stages = true;
  asked.modules = true;
  const absl::StatusOr<std::unique_ptr<Attribution>> read = AttributeLoaded(asked, "", loaded);
  if (!read.ok()) return console->Complain(read.status().message());
  const std::unique_ptr<Attribution>& attribution = *read;
  const Moment& moment = attribution->moments.front();
  for (size_t i = 0; i < kCategories; ++i) {
    if (moment.categories[i] > 0)
      row->categories[std::string(CategoryName(static_cast<Category>(i)))] = moment.categories[i];
  }
  for (size_t i = 1; i < kParts; ++i) {
    if (moment.parts[i] > 0) row->parts[std::string(PartName(static_cast<Part>(i)))] = moment.parts[i];
  }
  SetTensors(moment, row);
  SetStages(*attribution, row);
  SetComponents(moment, *attribution, row);
  loaded->input.attribution = nullptr;
}

}  // namespace

SweepRow MakeRow(PlannedRun* run, uint64_t capacity, Console* console) {
  SweepRow row;
  row.exit_code = run->exit_code;
  row.seconds = run->outcome.seconds;
  SetPeaks(*run, capacity, &row);
  SetState(*run, &row);
  if (run->loaded != nullptr && run->answered()) {
    SetTimeline(run->loaded->analysis, run->processes.front().peaks.device, &row);
    SetBreakdown(run->loaded.get(), console, &row);
  }
  return row;
}

}  // namespace gpumem::plan
