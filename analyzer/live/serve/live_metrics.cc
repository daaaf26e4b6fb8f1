// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "live/serve/live_metrics.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/text_formats.h"

namespace gpumem {
namespace {

using LiveLabels = MetricText::Labels;

// The trace's name tells processes apart that have one number on two machines.
LiveLabels LabelsOf(const LiveProcess& process) {
  LiveLabels labels = {{"program", process.process.program},
                       {"trace", std::filesystem::path(process.file).filename().string()}};
  if (process.process.rank >= 0) labels.emplace_back("rank", absl::StrCat(process.process.rank));
  return labels;
}

// Nothing: it is not known of this one.
using OfProcess = std::function<std::optional<std::string>(const LiveProcess& process)>;
using OfDevice = std::function<std::optional<uint64_t>(const LiveDevice& device)>;

class FrameMetrics {
 public:
  FrameMetrics(const LiveFrame& frame, std::string* out) : frame_(frame), metrics_(out) {}

  void EachProcess(absl::string_view name, absl::string_view help, const OfProcess& value) {
    metrics_.Begin(name, help);
    for (const LiveProcess& process : frame_.processes) {
      if (const auto known = value(process)) metrics_.Sample(LabelsOf(process), *known);
    }
  }

  void EachDevice(absl::string_view name, absl::string_view help, const OfDevice& value) {
    metrics_.Begin(name, help);
    for (const LiveProcess& process : frame_.processes) {
      for (const LiveDevice& device : process.devices) {
        LiveLabels labels = LabelsOf(process);
        labels.emplace_back("device", absl::StrCat(device.device));
        if (const auto known = value(device)) metrics_.Sample(labels, *known);
      }
    }
  }

  void Categories() {
    metrics_.Begin("gpumemshim_category_bytes", "Memory by category, of the GPU with the largest peak.");
    for (const LiveProcess& process : frame_.processes) {
      for (size_t i = 0; process.device >= 0 && i < kCategories; ++i) {
        if (process.categories[i] == 0) continue;
        LiveLabels labels = LabelsOf(process);
        labels.emplace_back("device", absl::StrCat(process.device));
        labels.emplace_back("category", std::string(CategoryName(static_cast<Category>(i))));
        metrics_.Sample(labels, process.categories[i]);
      }
    }
  }

  void End() { metrics_.End(); }

 private:
  const LiveFrame& frame_;
  MetricText metrics_;
};

void WriteDevices(FrameMetrics* metrics) {
  const auto text = [](uint64_t bytes) { return bytes == 0 ? std::optional<uint64_t>() : bytes; };
  metrics->EachDevice("gpumemshim_device_capacity_bytes", "Memory of the GPU.",
                      [&](const LiveDevice& device) { return text(device.capacity); });
  metrics->EachDevice("gpumemshim_allocated_bytes", "PyTorch's blocks in use now.",
                      [](const LiveDevice& device) { return std::optional(device.now.allocated); });
  metrics->EachDevice("gpumemshim_reserved_bytes", "PyTorch's segments now.",
                      [](const LiveDevice& device) { return std::optional(device.now.reserved); });
  metrics->EachDevice("gpumemshim_other_bytes", "CUDA memory outside of PyTorch's allocator now.",
                      [](const LiveDevice& device) { return std::optional(device.now.other); });
  metrics->EachDevice("gpumemshim_peak_allocated_bytes", "Highest sum of PyTorch's blocks in use so far.",
                      [](const LiveDevice& device) { return std::optional(device.peak.allocated); });
  metrics->EachDevice("gpumemshim_peak_reserved_bytes", "Highest sum of PyTorch's segments so far.",
                      [](const LiveDevice& device) { return std::optional(device.peak.reserved); });
  metrics->EachDevice(
      "gpumemshim_peaks_exact", "0 if events are missing: the peaks were that high at least, or about.",
      [](const LiveDevice& device) { return std::optional<uint64_t>(device.bound == PeakBound::kExact); });
  metrics->EachDevice("gpumemshim_device_used_bytes", "Memory in use by all processes, as the GPU said last.",
                      [](const LiveDevice& device) { return device.used; });
  metrics->EachDevice("gpumemshim_process_used_bytes", "Memory in use by this process, as nvidia-smi shows it.",
                      [](const LiveDevice& device) { return device.own; });
}

void WriteProcesses(FrameMetrics* metrics) {
  const auto count = [](uint64_t value) { return std::optional(absl::StrCat(value)); };
  metrics->EachProcess("gpumemshim_running", "1 if the program runs or its trace may still grow.",
                       [&](const LiveProcess& process) { return count(MayGrow(process)); });
  metrics->EachProcess("gpumemshim_unreadable", "1 if the trace cannot be read on.",
                       [&](const LiveProcess& process) { return count(!process.problem.empty()); });
  metrics->EachProcess(
      "gpumemshim_recorded_seconds", "From the first event to the newest.", [](const LiveProcess& process) {
        return std::optional(
            absl::StrFormat("%d.%09d", process.now_ns / 1'000'000'000, process.now_ns % 1'000'000'000));
      });
  metrics->EachProcess("gpumemshim_events", "Recorded events so far.",
                       [&](const LiveProcess& process) { return count(process.events); });
  metrics->EachProcess("gpumemshim_lost_events", "Events that happened and are not in the trace.",
                       [&](const LiveProcess& process) { return count(process.losses.Total()); });
  metrics->EachProcess("gpumemshim_failed_requests", "Requests that failed for good.",
                       [&](const LiveProcess& process) { return count(process.failed_requests); });
  metrics->EachProcess("gpumemshim_steps", "Complete training steps so far.",
                       [&](const LiveProcess& process) { return count(process.steps.count); });
  const auto with_steps = [](const LiveProcess& process, std::string text) {
    return process.steps.count == 0 ? std::nullopt : std::optional(std::move(text));
  };
  metrics->EachProcess(
      "gpumemshim_step_peak_bytes", "Peak of the last complete step.",
      [&](const LiveProcess& process) { return with_steps(process, absl::StrCat(process.steps.level)); });
  metrics->EachProcess("gpumemshim_step_seconds", "Median time of the newest steps.", [&](const LiveProcess& process) {
    return with_steps(process, absl::StrFormat("%.9f", process.steps.step_ns / 1e9));
  });
  metrics->EachProcess(
      "gpumemshim_growth_per_step_bytes", "Growth of the steps' peaks that goes on; 0 = none does.",
      [&](const LiveProcess& process) { return with_steps(process, absl::StrFormat("%.0f", process.steps.per_step)); });
}

}  // namespace

std::string LiveMetrics(const LiveFrame& frame) {
  std::string text;
  FrameMetrics metrics(frame, &text);
  WriteDevices(&metrics);
  metrics.Categories();
  WriteProcesses(&metrics);
  metrics.End();
  return text;
}

}  // namespace gpumem
