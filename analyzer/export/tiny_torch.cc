// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "export/tiny_torch.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "answers/outlook/outlook.h"
#include "base/json_writer.h"
#include "base/status_macros.h"
#include "export/python_text.h"
#include "ledger/leaks/leaks.h"
#include "ledger/load/findings.h"

namespace gpumem {
namespace {

// The tool's own thresholds.
constexpr double kWarningPercent = 85, kCriticalPercent = 95, kSevereLeakMb = 200;
constexpr const char* kCriticalActions[] = {"立即释放缓存: tiny_torch.cuda.empty_cache()", "减少batch size",
                                            "检查是否有内存泄漏"};
constexpr const char* kHighActions[] = {"准备释放缓存", "考虑减少batch size"};

double Percent(double bytes, uint64_t capacity) {
  return capacity == 0 ? std::numeric_limits<double>::quiet_NaN() : bytes / static_cast<double>(capacity) * 100;
}
double Percent(uint64_t bytes, uint64_t capacity) { return Percent(static_cast<double>(bytes), capacity); }

double MeanPercent(const DeviceHistory& device) {
  if (device.observed_ns == 0) return Percent(device.last.now.total, device.last.capacity);
  return Percent(device.total_byte_ns / static_cast<double>(device.observed_ns), device.last.capacity);
}

struct Summary {
  uint64_t total = 0, used = 0;
  bool knows_all = true;  // the size of each GPU
  double Used() const { return knows_all && total != 0 ? Percent(used, total) : Percent(used, 0); }
};

Summary SummaryOf(const MomentLog& log) {
  Summary summary;
  for (const DeviceHistory& device : log.devices()) {
    summary.total += device.last.capacity;
    summary.used += device.last.now.total;
    summary.knows_all = summary.knows_all && device.last.capacity != 0;
  }
  return summary;
}

void WriteDevice(const DeviceHistory& device, JsonWriter* json) {
  const DeviceMoment& last = device.last;
  json->Key(absl::StrCat(last.device));
  json->BeginObject();
  json->Key("current_usage");
  json->BeginObject();
  json->Field("allocated", last.now.total);
  json->Key("free");
  last.capacity == 0 ? json->Null() : json->Value(last.capacity - std::min(last.capacity, last.now.total));
  json->Key("total");
  last.capacity == 0 ? json->Null() : json->Value(last.capacity);
  WriteFloat("utilization_percent", Percent(last.now.total, last.capacity), json);
  json->EndObject();
  json->Key("statistics");
  json->BeginObject();
  WriteFloat("avg_utilization", MeanPercent(device), json);
  WriteFloat("max_utilization", Percent(last.highest.total, last.capacity), json);
  json->Field("samples_count", device.changes);
  json->EndObject();
  json->EndObject();
}

// Its texts of one GPU; nothing where no risk is high. `outlook`: of that GPU, or null.
void WriteWarning(const DeviceHistory& device, const Outlook* outlook, bool has_failed, std::string* out) {
  const double usage = Percent(device.last.highest.total, device.last.capacity);
  const bool reaches = outlook != nullptr && outlook->forecast.kind == ForecastKind::kReaches;
  const bool is_critical = has_failed || usage > kCriticalPercent || (reaches && outlook->risk == RiskLevel::kCritical);
  const bool is_high = reaches && (outlook->risk == RiskLevel::kHigh || usage > kWarningPercent);
  if (!is_critical && !is_high) return;
  absl::StrAppendFormat(out, "[WARNING] OOM警告: GPU %d\n", device.last.device);
  absl::StrAppend(out, "   风险等级: ", is_critical ? "critical" : "high", "\n");
  if (std::isfinite(usage)) absl::StrAppendFormat(out, "   当前使用率: %.1f%%\n", usage);
  if (reaches) {
    absl::StrAppendFormat(out, "   预测OOM时间: %.1f秒后\n", outlook->forecast.likely * outlook->step_ns / 1e9);
    absl::StrAppendFormat(out, "   置信度: %.2f\n", outlook->forecast.confidence);
  }
  const absl::Span<const char* const> actions =
      is_critical ? absl::MakeConstSpan(kCriticalActions) : absl::MakeConstSpan(kHighActions);
  for (const char* const action : actions) absl::StrAppend(out, "   建议: ", action, "\n");
}

void WriteLeaks(const LeakFindings& leaks, std::string* out) {
  if (leaks.loops.empty()) return;  // nothing repeats: whether memory leaks is not known
  std::string found;
  size_t devices = 0;
  for (const LeakDevice& device : leaks.devices) {
    uint64_t grown = 0;
    for (const LeakRow& row : device.rows) grown += row.status == LeakStatus::kGrowing ? row.grown_bytes : 0;
    if (grown == 0) continue;
    ++devices;
    absl::StrAppendFormat(&found, "   GPU %d: %.1f MB\n   严重程度: %s\n", device.device, MegaBytes(grown),
                          MegaBytes(grown) > kSevereLeakMb ? "high" : "medium");
  }
  if (devices == 0) {
    absl::StrAppend(out, "[INFO] 未发现明显的内存泄漏\n");
  } else {
    absl::StrAppend(out, "[WARNING] 发现 ", devices, " 个潜在内存泄漏:\n", found);
  }
}

void WriteSummary(const MomentLog& log, std::string* out) {
  const Summary summary = SummaryOf(log);
  absl::StrAppend(out, "[INFO] 监控摘要:\n   设备数: ", log.devices().size(), "\n");
  if (summary.knows_all) absl::StrAppendFormat(out, "   总显存: %.2f GB\n", MegaBytes(summary.total) / 1024);
  absl::StrAppendFormat(out, "   已使用: %.2f GB\n", MegaBytes(summary.used) / 1024);
  if (std::isfinite(summary.Used())) absl::StrAppendFormat(out, "   利用率: %.1f%%\n", summary.Used());
}

}  // namespace

void WriteTinyTorchStatus(const MomentLog& log, const LoadedTrace& loaded, const TextSink& sink) {
  std::string out;
  JsonWriter json(&out);
  const uint64_t start = loaded.input.StartRealtime();
  json.BeginObject();
  json.Key("timestamp");
  start == 0 ? json.Null() : json.Value(PythonIsoTime(start + log.last_ns()));
  json.Key("devices");
  json.BeginObject();
  for (const DeviceHistory& device : log.devices()) WriteDevice(device, &json);
  json.EndObject();
  const Summary summary = SummaryOf(log);
  json.Key("summary");
  json.BeginObject();
  json.Field("total_devices", log.devices().size());
  json.Key("total_memory_gb");
  summary.knows_all ? json.Raw(PythonFloat(MegaBytes(summary.total) / 1024)) : json.Null();
  WriteFloat("overall_utilization", summary.Used(), &json);
  json.EndObject();
  json.EndObject();
  sink(out + "\n");
}

absl::Status WriteTinyTorchLog(const MomentLog& log, LoadedTrace* loaded, const TextSink& sink) {
  AttributionRequest request;
  request.steps = true;
  GPUMEM_ASSIGN_OR_RETURN(const LoadedFindings findings, LoadFindings(std::move(request), "", loaded));
  const Outlook outlook = OutlookOf(loaded->input);
  loaded->input.attribution = nullptr;
  loaded->input.leaks = nullptr;
  std::string out;
  for (const DeviceHistory& device : log.devices()) {
    const std::vector<OomEvent>& ooms = loaded->analysis.ooms;
    const bool has_failed = std::any_of(
        ooms.begin(), ooms.end(), [&](const OomEvent& oom) { return oom.final && oom.device == device.last.device; });
    WriteWarning(device, outlook.device == device.last.device ? &outlook : nullptr, has_failed, &out);
  }
  WriteLeaks(*findings.leaks, &out);
  WriteSummary(log, &out);
  sink(out);
  return absl::OkStatus();
}

}  // namespace gpumem
