// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "export/memory_debugger.h"

#include <algorithm>
#include <limits>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "answers/parts/model_parts.h"
#include "base/format.h"
#include "base/json_writer.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "export/python_text.h"
#include "ledger/load/attribute.h"

namespace gpumem {
namespace {

// The tools' own thresholds.
constexpr double kThresholdMb = 100.0, kHighUtilization = 90.0;

// Of what is allocated; not a number where the GPU's size is not known.
double Utilization(const DeviceMoment& device) {
  if (device.capacity == 0) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(device.now.allocated) / static_cast<double>(device.capacity) * 100;
}

std::string PercentText(double percent) {
  return percent == percent ? absl::StrFormat("%.1f%%", percent) : std::string("未知");
}

std::string UsageText(const DeviceMoment& device) {
  return absl::StrCat("  GPU ", device.device, ": ", absl::StrFormat("%.1fMB", MegaBytes(device.now.allocated)), " / ",
                      device.capacity == 0 ? "未知" : absl::StrFormat("%.1fMB", MegaBytes(device.capacity)), " (",
                      PercentText(Utilization(device)), ")");
}

double ChangeMb(const DeviceMoment& from, const DeviceMoment& to) {
  return MegaBytes(to.now.allocated) - MegaBytes(from.now.allocated);
}

bool IsOwnMoment(const LoggedMoment& moment) {
  return moment.kind != MomentKind::kStepEnd && moment.kind != MomentKind::kFailedRequest;
}

std::string NameOf(const LoggedMoment& moment) {
  switch (moment.kind) {
    case MomentKind::kMark:
      return moment.name;
    case MomentKind::kStageBegin:
      return moment.name + "_before";
    case MomentKind::kStageEnd:
      return moment.name + "_after";
    case MomentKind::kStepEnd:
      return absl::StrCat("step_", moment.number, "_end");
    case MomentKind::kFailedRequest:
      return "oom_error";
  }
  return "";
}

void WriteModel(const LoadedTrace& loaded, const Attribution& attribution, std::string* out) {
  const ObjectTable& objects = loaded.stacks.objects();
  const ParameterSums& sums = TotalsOf(attribution, objects).all;
  std::string name = "model";
  std::string large;
  for (const ParameterRow& row : attribution.parameters) {
    const TensorInfo* const tensor = objects.tensor(row.tensor);
    if (tensor == nullptr) continue;
    const NnModuleInfo* const root = objects.module(tensor->root);
    if (root != nullptr && name == "model") name = root->class_name;
    if (row.bytes > kLargeParameterBytes) {
      absl::StrAppendFormat(&large, "[WARNING] 大参数检测: %s (%.2f MB)\n", EscapeControls(tensor->name),
                            MegaBytes(row.bytes));
    }
  }
  absl::StrAppendFormat(out, "[INFO] 快速分析模型: %s\n", EscapeControls(name));
  absl::StrAppendFormat(out, "[INFO]   总参数: %s\n", FormatCount(sums.parameters));
  absl::StrAppendFormat(out, "[INFO]   可训练参数: %s\n", FormatCount(sums.trainable_parameters));
  absl::StrAppendFormat(out, "[INFO]   内存占用: %.2f MB\n", MegaBytes(sums.parameter_bytes));
  absl::StrAppendFormat(out, "[INFO]   参数效率: %.2f%%\n", sums.TrainablePercent());
  absl::StrAppend(out, large);
}

// Once a GPU and a sort of warning, where it first holds.
class Warnings {
 public:
  void Check(const DeviceMoment& device, std::string* out) {
    const double mb = MegaBytes(device.now.allocated), utilization = Utilization(device);
    if (mb > kThresholdMb && !said_[device.device].threshold) {
      said_[device.device].threshold = true;
      absl::StrAppendFormat(out, "[WARNING] GPU %d 内存使用超过阈值: %.1fMB > %.1fMB\n", device.device, mb,
                            kThresholdMb);
    }
    if (utilization > kHighUtilization && !said_[device.device].utilization) {
      said_[device.device].utilization = true;
      absl::StrAppendFormat(out, "[WARNING] GPU %d 利用率过高: %.1f%%\n", device.device, utilization);
    }
  }

 private:
  struct Said {
    bool threshold = false, utilization = false;
  };
  std::map<int, Said> said_;
};

}  // namespace

DebuggerSnapshots DebuggerSnapshotsOf(const MomentLog& log, const LoadedTrace& loaded) {
  DebuggerSnapshots found;
  found.start_realtime_ns = loaded.input.StartRealtime();
  DebuggerSnapshot initial, last;
  initial.name = "initial";
  initial.since_ns = log.initial().since_ns;
  initial.devices = log.initial().devices;
  last.name = "final";
  last.since_ns = log.last_ns();
  for (const DeviceHistory& device : log.devices()) last.devices.push_back(device.last);
  found.snapshots.push_back(initial);
  const bool has_own = std::any_of(log.moments().begin(), log.moments().end(), IsOwnMoment);
  std::map<std::string, size_t> open;  // snapshots before stages, by stage
  size_t before = 0;                   // the last one that is not a stage's beginning
  for (const LoggedMoment& moment : log.moments()) {
    if (has_own && moment.kind == MomentKind::kStepEnd) continue;
    const size_t number = found.snapshots.size();
    size_t compared_with = before;
    if (moment.kind == MomentKind::kStageBegin) {
      open[moment.name] = number;
      compared_with = DebuggerSnapshot::kNone;
    } else if (const auto it = open.find(moment.name); moment.kind == MomentKind::kStageEnd && it != open.end()) {
      compared_with = it->second;
    }
    found.snapshots.push_back({NameOf(moment), moment.since_ns, moment.devices, compared_with});
    if (moment.kind != MomentKind::kStageBegin) before = number;
  }
  last.compared_with = 0;
  found.snapshots.push_back(last);
  return found;
}

void WriteDebuggerSnapshots(const DebuggerSnapshots& snapshots, const TextSink& sink) {
  ChunkedText out(sink);
  JsonWriter json(out.text());
  json.BeginArray();
  for (const DebuggerSnapshot& snapshot : snapshots.snapshots) {
    json.BeginObject();
    json.Field("name", snapshot.name);
    json.Key("timestamp");
    snapshots.start_realtime_ns == 0 ? json.Null()
                                     : json.Value(PythonIsoTime(snapshots.start_realtime_ns + snapshot.since_ns));
    json.Key("gpu_summary");
    json.BeginArray();
    for (const DeviceMoment& device : snapshot.devices) {
      json.BeginObject();
      json.Field("gpu_id", device.device);
      WriteFloat("allocated_mb", MegaBytes(device.now.allocated), &json);
      WriteFloat("utilization_percent", Utilization(device), &json);
      json.Key("free_mb");
      device.capacity == 0
          ? json.Null()
          : json.Raw(PythonFloat(MegaBytes(device.capacity - std::min(device.capacity, device.now.allocated))));
      json.EndObject();
    }
    json.EndArray();
    json.EndObject();
    out.MaybeFlush();
  }
  json.EndArray();
  *out.text() += '\n';
}

void WriteDebuggerComparison(const DebuggerSnapshots& snapshots, const TextSink& sink) {
  ChunkedText out(sink);
  JsonWriter json(out.text());
  json.BeginArray();
  for (const DebuggerSnapshot& to : snapshots.snapshots) {
    if (to.compared_with == DebuggerSnapshot::kNone) continue;
    const DebuggerSnapshot& from = snapshots.snapshots[to.compared_with];
    if (&from == &to) continue;
    json.BeginObject();
    json.Field("from", from.name);
    json.Field("to", to.name);
    json.Key("gpu_changes");
    json.BeginArray();
    for (size_t i = 0; i < to.devices.size(); ++i) {
      json.BeginObject();
      json.Field("gpu_id", to.devices[i].device);
      WriteFloat("memory_change_mb", ChangeMb(from.devices[i], to.devices[i]), &json);
      WriteFloat("utilization_change", Utilization(to.devices[i]) - Utilization(from.devices[i]), &json);
      json.EndObject();
    }
    json.EndArray();
    json.EndObject();
    out.MaybeFlush();
  }
  json.EndArray();
  *out.text() += '\n';
}

void WriteDebuggerReport(const DebuggerSnapshots& snapshots, const LoadedTrace& loaded, const TextSink& sink) {
  const DebuggerSnapshot& last = snapshots.snapshots.back();
  const std::string rule(60, '=');
  const std::string& path = loaded.analysis.path;
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash);
  const std::string time = snapshots.start_realtime_ns == 0
                               ? std::string("未知")
                               : PythonTime(snapshots.start_realtime_ns + last.since_ns, "%Y-%m-%d %H:%M:%S");
  std::string out = absl::StrCat(rule, "\n快速内存调试报告\n", rule, "\n生成时间: ", time,
                                 "\n日志目录: ", EscapeControls(folder), "\n\n当前内存状态:\n");
  for (const DeviceMoment& device : last.devices) absl::StrAppend(&out, UsageText(device), "\n");
  const SamplingInfo& sampling = loaded.analysis.sampling;
  if (sampling.system_total != 0) {
    const uint64_t used = sampling.system_total - std::min(sampling.system_total, sampling.least_system_available);
    absl::StrAppendFormat(&out, "系统内存: %.1fGB / %.1fGB (%.1f%%)\n", MegaBytes(used) / 1024,
                          MegaBytes(sampling.system_total) / 1024,
                          static_cast<double>(used) / static_cast<double>(sampling.system_total) * 100);
  }
  sink(out);
}

absl::Status WriteDebuggerLog(const DebuggerSnapshots& snapshots, LoadedTrace* loaded, const TextSink& sink) {
  GPUMEM_ASSIGN_OR_RETURN(const auto attribution, AttributeLoaded({}, "", loaded));
  loaded->input.attribution = nullptr;
  ChunkedText out(sink);
  if (!attribution->parameters.empty()) WriteModel(*loaded, *attribution, out.text());
  Warnings warnings;
  for (const DebuggerSnapshot& snapshot : snapshots.snapshots) {
    absl::StrAppend(out.text(), "[INFO] 获取内存快照: ", EscapeControls(snapshot.name), "\n");
    for (const DeviceMoment& device : snapshot.devices) absl::StrAppend(out.text(), "[INFO] ", UsageText(device), "\n");
    for (const DeviceMoment& device : snapshot.devices) warnings.Check(device, out.text());
    if (snapshot.compared_with == DebuggerSnapshot::kNone) continue;
    const DebuggerSnapshot& from = snapshots.snapshots[snapshot.compared_with];
    absl::StrAppend(out.text(), "[INFO] 比较内存快照: ", EscapeControls(from.name), " vs ",
                    EscapeControls(snapshot.name), "\n");
    for (size_t i = 0; i < snapshot.devices.size(); ++i) {
      const double change = Utilization(snapshot.devices[i]) - Utilization(from.devices[i]);
      absl::StrAppendFormat(out.text(), "[INFO]   GPU %d: 内存变化 %+.1fMB, 利用率变化 %s\n",
                            snapshot.devices[i].device, ChangeMb(from.devices[i], snapshot.devices[i]),
                            change == change ? absl::StrFormat("%+.1f%%", change) : "未知");
    }
    out.MaybeFlush();
  }
  return absl::OkStatus();
}

}  // namespace gpumem
