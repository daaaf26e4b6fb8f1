// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "export/gpu_memory_profiler.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/json_writer.h"
#include "base/utf8.h"
#include "export/python_text.h"
#include "ledger/load/input.h"

namespace gpumem {
namespace {

constexpr int kNameWidth = 20;

bool IsMarkOrStageEnd(const LoggedMoment& moment) {
  return moment.kind == MomentKind::kMark || moment.kind == MomentKind::kStageEnd;
}

ProfilerEvent EventOf(const LoggedMoment& moment, size_t device) {
  ProfilerEvent event;
  event.name = moment.kind == MomentKind::kStepEnd         ? "参数更新"
               : moment.kind == MomentKind::kFailedRequest ? "内存不足错误"
                                                           : moment.name;
  event.info = moment.info;
  event.since_ns = moment.since_ns;
  event.now = moment.devices[device].now;
  event.highest = moment.devices[device].highest;
  return event;
}

// Names in the order of their first records, and the records of each.
std::vector<std::vector<const ProfilerEvent*>> ByName(const std::vector<ProfilerEvent>& events) {
  absl::flat_hash_map<std::string, size_t> places;
  std::vector<std::vector<const ProfilerEvent*>> lists;
  for (const ProfilerEvent& event : events) {
    const auto [it, is_new] = places.try_emplace(event.name, lists.size());
    if (is_new) lists.emplace_back();
    lists[it->second].push_back(&event);
  }
  return lists;
}

void WriteRecord(const ProfilerEvent& event, uint64_t start_realtime_ns, JsonWriter* json) {
  json->BeginObject();
  const auto number = [&](absl::string_view key, double value) {
    json->Key(key);
    json->Raw(PythonFloat(value));
  };
  number("time", static_cast<double>(event.since_ns) / 1e9);
  number("allocated", MegaBytes(event.now.allocated));
  number("reserved", MegaBytes(event.now.reserved));
  number("max_allocated", MegaBytes(event.highest.allocated));
  number("max_reserved", MegaBytes(event.highest.reserved));
  json->Key("timestamp");
  start_realtime_ns == 0 ? json->Null() : json->Value(PythonIsoTime(start_realtime_ns + event.since_ns));
  json->EndObject();
}

std::string LineOf(const ProfilerEvent& event) {
  std::string line = absl::StrFormat(
      "事件: %s | 分配: %6.1fMB | 保留: %6.1fMB | 最大分配: %6.1fMB | 最大保留: %6.1fMB | 耗时: %.2fs",
      EscapeControls(event.name), MegaBytes(event.now.allocated), MegaBytes(event.now.reserved),
      MegaBytes(event.highest.allocated), MegaBytes(event.highest.reserved), static_cast<double>(event.since_ns) / 1e9);
  if (!event.info.empty()) absl::StrAppend(&line, " | 额外信息: ", EscapeControls(event.info));
  return line;
}

}  // namespace

GpuMemoryProfilerEvents ProfilerEventsOf(const MomentLog& log, const LoadedTrace& loaded, int device) {
  GpuMemoryProfilerEvents found;
  found.start_realtime_ns = loaded.input.StartRealtime();
  for (const DeviceAnalysis& each : loaded.analysis.devices)
    found.gpus.push_back({each.device, each.name, each.capacity});
  const DeviceAnalysis* const largest = LargestDevice(loaded.analysis);
  if (device < 0 && largest != nullptr) device = largest->device;
  const auto chosen = std::find_if(log.devices().begin(), log.devices().end(),
                                   [&](const DeviceHistory& each) { return each.last.device == device; });
  if (chosen == log.devices().end()) return found;
  const auto place = static_cast<size_t>(chosen - log.devices().begin());
  found.events.push_back(EventOf(log.initial(), place));
  found.events.back().name = "初始化";
  const bool has_own = std::any_of(log.moments().begin(), log.moments().end(), IsMarkOrStageEnd);
  for (const LoggedMoment& moment : log.moments()) {
    const bool is_shown = moment.kind == MomentKind::kFailedRequest ||
                          (has_own ? IsMarkOrStageEnd(moment) : moment.kind == MomentKind::kStepEnd);
    if (is_shown) found.events.push_back(EventOf(moment, place));
  }
  const DeviceMoment& last = chosen->last;
  ProfilerEvent& peak = found.events.emplace_back();
  peak.name = "峰值内存";
  peak.info =
      absl::StrFormat("分配=%.2fMB, 保留=%.2fMB", MegaBytes(last.highest.allocated), MegaBytes(last.highest.reserved));
  peak.since_ns = chosen->at_peak_ns;
  peak.now = chosen->at_peak;
  peak.highest = last.highest;
  return found;
}

void WriteProfilerJson(const GpuMemoryProfilerEvents& events, const TextSink& sink) {
  ChunkedText out(sink);
  JsonWriter json(out.text());
  json.BeginObject();
  for (const std::vector<const ProfilerEvent*>& records : ByName(events.events)) {
    json.Key(records.front()->name);
    json.BeginArray();
    for (const ProfilerEvent* const record : records) {
      WriteRecord(*record, events.start_realtime_ns, &json);
      out.MaybeFlush();
    }
    json.EndArray();
  }
  json.EndObject();
  *out.text() += '\n';
}

void WriteProfilerLog(const GpuMemoryProfilerEvents& events, const std::string& file, const TextSink& sink) {
  ChunkedText out(sink);
  const std::string name = absl::StrCat("MemoryProfiler_", PythonTime(events.start_realtime_ns, "%Y%m%d_%H%M%S"));
  const auto line = [&](uint64_t since_ns, absl::string_view text) {
    absl::StrAppend(out.text(), PythonTime(events.start_realtime_ns + since_ns, "%Y-%m-%d %H:%M:%S"), " - ", name,
                    " - INFO - ", text, "\n");
    out.MaybeFlush();
  };
  const std::string rule(80, '=');
  for (const std::string& text : {rule, std::string("GPU内存分析器初始化"), rule, absl::StrCat("日志文件: ", file),
                                  absl::StrCat("CUDA可用: ", events.gpus.empty() ? "False" : "True"),
                                  absl::StrCat("GPU数量: ", events.gpus.size())})
    line(0, text);
  for (const GpuMemoryProfilerEvents::Gpu& gpu : events.gpus) {
    const std::string size = gpu.capacity == 0 ? "未知" : absl::StrFormat("%.1fGB", MegaBytes(gpu.capacity) / 1024.0);
    line(0,
         absl::StrCat("GPU ", gpu.device, ": ", gpu.name.empty() ? "未知" : EscapeControls(gpu.name), " (", size, ")"));
  }
  std::vector<const ProfilerEvent*> in_time;  // the peak is behind all others otherwise
  for (const ProfilerEvent& event : events.events) in_time.push_back(&event);
  std::stable_sort(in_time.begin(), in_time.end(),
                   [](const ProfilerEvent* a, const ProfilerEvent* b) { return a->since_ns < b->since_ns; });
  for (const ProfilerEvent* const event : in_time) line(event->since_ns, LineOf(*event));
}

void WriteProfilerTimeline(const GpuMemoryProfilerEvents& events, const TextSink& sink) {
  std::string out = "==== GPU Memory Timeline =====\n";
  for (const std::vector<const ProfilerEvent*>& records : ByName(events.events)) {
    const ProfilerEvent& last = *records.back();
    absl::StrAppendFormat(&out, "%s | Allocated: %6.1fMB | Reserved: %6.1fMB\n",
                          PadRight(EscapeControls(last.name), kNameWidth), MegaBytes(last.now.allocated),
                          MegaBytes(last.now.reserved));
  }
  sink(out);
}

}  // namespace gpumem
