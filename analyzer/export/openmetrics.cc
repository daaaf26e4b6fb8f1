// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "export/openmetrics.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/text_formats.h"
#include "ledger/load/attribute.h"

namespace gpumem {
namespace {

using GaugeLabels = MetricText::Labels;

// What is said of each device.
struct DeviceMetric {
  const char* name;
  const char* help;
  uint64_t (*value)(const DeviceAnalysis& device);
};

constexpr DeviceMetric kOfDevices[] = {
    {"gpumemshim_peak_allocated_bytes", "Highest sum of PyTorch's blocks in use.",
     [](const DeviceAnalysis& device) { return device.peak_allocated.bytes; }},
    {"gpumemshim_peak_reserved_bytes", "Highest sum of PyTorch's segments.",
     [](const DeviceAnalysis& device) { return device.peak_reserved.bytes; }},
    {"gpumemshim_peak_other_bytes", "Highest sum of CUDA memory outside of PyTorch's allocator.",
     [](const DeviceAnalysis& device) { return device.peak_other.bytes; }},
    {"gpumemshim_peak_total_bytes", "Highest sum of all recorded CUDA memory.",
     [](const DeviceAnalysis& device) { return device.peak_total.bytes; }},
    {"gpumemshim_end_allocated_bytes", "PyTorch's blocks in use at the end.",
     [](const DeviceAnalysis& device) { return device.end.allocated; }},
    {"gpumemshim_end_reserved_bytes", "PyTorch's segments at the end.",
     [](const DeviceAnalysis& device) { return device.end.reserved; }},
    {"gpumemshim_end_other_bytes", "CUDA memory outside of PyTorch's allocator at the end.",
     [](const DeviceAnalysis& device) { return device.end.other; }},
    {"gpumemshim_end_total_bytes", "All recorded CUDA memory at the end.",
     [](const DeviceAnalysis& device) { return device.end.total; }},
    {"gpumemshim_peak_blocks", "PyTorch's blocks in use at the peak of their sum.",
     [](const DeviceAnalysis& device) { return device.at_peak_allocated.block_count; }},
    {"gpumemshim_peaks_exact", "0 if events are missing: the peaks were that high at least, or about.",
     [](const DeviceAnalysis& device) { return uint64_t{device.bound == PeakBound::kExact}; }},
};

GaugeLabels CommonLabels(const ProcessInfo& process) {
  GaugeLabels labels = {{"program", process.program}};
  if (process.rank >= 0) labels.emplace_back("rank", absl::StrCat(process.rank));
  return labels;
}

std::string Seconds(uint64_t ns) { return absl::StrFormat("%d.%09d", ns / 1'000'000'000, ns % 1'000'000'000); }

void WriteAbout(const LoadedTrace& loaded, MetricText* metrics) {
  const Analysis& analysis = loaded.analysis;
  const ProcessInfo& process = analysis.process;
  const auto version = process.versions.find("torch");
  metrics->Begin("gpumemshim_trace_info", "The recorded process; always 1.");
  metrics->Sample({{"pid", absl::StrCat(process.pid)},
                   {"host", process.hostname},
                   {"torch", version == process.versions.end() ? "" : version->second},
                   {"recorder", process.writer_version}},
                  1);
  if (const uint64_t start = loaded.input.StartRealtime(); start != 0) {
    metrics->Begin("gpumemshim_trace_start_timestamp_seconds", "The first event, since 1970-01-01 UTC.");
    metrics->Sample({}, Seconds(start));
  }
  metrics->Begin("gpumemshim_trace_duration_seconds", "From the first event to the last.");
  metrics->Sample({}, Seconds(loaded.input.Since(analysis.end_ns)));
  metrics->Single("gpumemshim_trace_complete", "1 if the trace has its end: the program ended and was recorded to it.",
                  analysis.complete);
  metrics->Single("gpumemshim_trace_damaged", "1 if the file is damaged: the numbers are of what could be read.",
                  loaded.is_damaged());
  metrics->Single("gpumemshim_lost_events", "Events that happened and are not in the trace.", analysis.losses.Total());
  metrics->Begin("gpumemshim_events", "Recorded events by layer.");
  metrics->Sample({{"layer", "torch"}}, analysis.events.torch);
  metrics->Sample({{"layer", "runtime"}}, analysis.events.runtime);
  metrics->Sample({{"layer", "driver"}}, analysis.events.driver);
  metrics->Single("gpumemshim_host_pinned_peak_bytes", "Highest sum of pinned host memory.", analysis.host_pinned_peak);
}

GaugeLabels OfDevice(int device) { return {{"device", absl::StrCat(device)}}; }

void WriteDevices(const Analysis& analysis, MetricText* metrics) {
  if (analysis.devices.empty()) return;
  metrics->Begin("gpumemshim_device_info", "The GPU's name; always 1.");
  for (const DeviceAnalysis& device : analysis.devices)
    metrics->Sample({{"device", absl::StrCat(device.device)}, {"name", device.name}}, 1);
  metrics->Begin("gpumemshim_device_capacity_bytes", "Memory of the GPU.");
  for (const DeviceAnalysis& device : analysis.devices) {
    if (device.capacity != 0) metrics->Sample(OfDevice(device.device), device.capacity);
  }
  for (const DeviceMetric& metric : kOfDevices) {
    metrics->Begin(metric.name, metric.help);
    for (const DeviceAnalysis& device : analysis.devices)
      metrics->Sample(OfDevice(device.device), metric.value(device));
  }
  metrics->Begin("gpumemshim_device_used_peak_bytes", "Most memory in use by all processes, as sampled.");
  for (const DeviceAnalysis& device : analysis.devices) {
    if (device.use.samples != 0) metrics->Sample(OfDevice(device.device), device.use.peak_used);
  }
  metrics->Begin("gpumemshim_failed_requests", "Requests that failed for good.");
  for (const DeviceAnalysis& device : analysis.devices) {
    const auto failed = [&](const OomEvent& oom) { return oom.final && oom.device == device.device; };
    metrics->Sample(OfDevice(device.device),
                    static_cast<uint64_t>(std::count_if(analysis.ooms.begin(), analysis.ooms.end(), failed)));
  }
}

// Of the device with the largest peak; nothing where the trace does not say what memory is for.
absl::Status WriteCategories(LoadedTrace* loaded, MetricText* metrics) {
  const DeviceAnalysis* const device = LargestDevice(loaded->analysis);
  if (device == nullptr || !SaysWhatFor(loaded->analysis)) return absl::OkStatus();
  AttributionRequest request;
  request.moments = {{MomentQuery::Kind::kEvent, PeakOf(*device, DefaultMeasure(*device)).event_index, "peak"}};
  GPUMEM_ASSIGN_OR_RETURN(const auto attribution, AttributeLoaded(request, "", loaded));
  loaded->input.attribution = nullptr;
  const Moment& peak = attribution->moments.front();
  if (!peak.found) return absl::OkStatus();
  metrics->Begin("gpumemshim_peak_category_bytes", "Memory by category at the peak of the GPU with the largest one.");
  for (size_t i = 0; i < kCategories; ++i) {
    if (peak.categories[i] == 0) continue;
    metrics->Sample(
        {{"device", absl::StrCat(device->device)}, {"category", std::string(CategoryName(static_cast<Category>(i)))}},
        peak.categories[i]);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteOpenMetrics(LoadedTrace* loaded, const TextSink& sink) {
  std::string text;
  MetricText metrics(&text, CommonLabels(loaded->analysis.process));
  WriteAbout(*loaded, &metrics);
  WriteDevices(loaded->analysis, &metrics);
  GPUMEM_RETURN_IF_ERROR(WriteCategories(loaded, &metrics));
  metrics.End();
  sink(text);
  return absl::OkStatus();
}

}  // namespace gpumem
