// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/parts/breakdown_parts.h"
#include "answers/report/json_parts.h"

namespace gpumem {
namespace {

constexpr absl::string_view kReadingCauses[] = {"none",        "periodic",      "growth",
                                                "first_event", "out_of_memory", "program_end"};
constexpr absl::string_view kMatches[] = {"unknown", "by_pid", "by_pid_inside", "only_one"};

void FieldOrNull(absl::string_view key, uint64_t bytes, JsonWriter* json) {
  json->Key(key);
  bytes == kNotStated ? json->Null() : json->Value(bytes);
}

void TextOrNull(absl::string_view key, const std::string& text, JsonWriter* json) {
  json->Key(key);
  text.empty() ? json->Null() : json->Value(text);
}

void WriteReading(const DeviceReading& reading, const ReportInput& input, JsonWriter* json) {
  json->Field("time_ns", input.Since(reading.time_ns));
  json->Field("took_ns", reading.took_ns);
  json->Field("cause", kReadingCauses[reading.cause < std::size(kReadingCauses) ? reading.cause : 0]);
  FieldOrNull("own_bytes", reading.own, json);
  FieldOrNull("used_bytes", reading.used, json);
  FieldOrNull("free_bytes", reading.free, json);
  FieldOrNull("hardware_bytes", reading.total, json);
  FieldOrNull("driver_reserved_bytes", reading.driver_reserved, json);
  FieldOrNull("pool_reserved_bytes", reading.pool_reserved, json);
  json->Field("own_process", kMatches[static_cast<size_t>(reading.own_process)]);
}

void WriteSample(const MemoryBreakdown& breakdown, const ReportInput& input, JsonWriter* json) {
  json->Key("sample");
  if (!breakdown.has_reading) return json->Null();
  json->BeginObject();
  WriteReading(breakdown.reading, input, json);
  json->Field("same_state", breakdown.same_state);
  FieldOrNull("other_process_count", breakdown.reading.other_count, json);
  json->Key("other_processes");
  json->BeginArray();
  for (const OtherProcess& other : breakdown.reading.others) {
    json->BeginObject(JsonLayout::kOneLine);
    json->Field("pid", other.pid);
    TextOrNull("name", other.name, json);
    FieldOrNull("used_bytes", other.bytes, json);
    json->EndObject();
  }
  json->EndArray();
  json->EndObject();
}

// Static variables are known by CUPTI alone.
uint64_t KnownOr(const MemoryBreakdown& breakdown, uint64_t bytes) {
  return breakdown.cupti_known ? bytes : kNotStated;
}

void WriteOne(absl::string_view key, const MemoryBreakdown& breakdown, const ReportInput& input, JsonWriter* json) {
  json->Key(key);
  if (!breakdown.any) return json->Null();
  json->BeginObject();
  json->Field("time_ns", input.Since(breakdown.time_ns));
  json->Key("parts");
  json->BeginArray();
  for (const BreakdownPart& part : PartsOf(breakdown, input)) {
    json->BeginObject(JsonLayout::kOneLine);
    json->Field("part", part.name);
    json->Field("label", part.label);
    json->Field("bytes", part.bytes);
    json->Field("basis", BasisName(part.basis));
    json->EndObject();
  }
  json->EndArray();
  const bool known = breakdown.process != kNotStated;
  json->Key("unexplained_bytes");
  known ? json->Value(breakdown.unexplained) : json->Null();
  TextOrNull("guess", GuessAtRest(breakdown, *input.analysis), json);
  FieldOrNull("process_bytes", breakdown.process, json);
  json->Field("process_basis", BasisName(BasisOfProcess(breakdown)));
  TextOrNull("why_unknown", known ? "" : WhyNotKnown(breakdown, *input.analysis), json);
  json->Field("host_pinned_bytes", breakdown.host_pinned);
  json->Field("managed_bytes", breakdown.managed);
  json->Field("imported_bytes", breakdown.imported);
  FieldOrNull("static_bytes", KnownOr(breakdown, breakdown.cupti.static_bytes), json);
  FieldOrNull("static_in_measured_bytes", KnownOr(breakdown, breakdown.cupti.static_in_measured_bytes), json);
  WriteSample(breakdown, input, json);
  json->EndObject();
}

}  // namespace

void WriteJsonBreakdown(const DeviceAnalysis& device, const ReportInput& input, JsonWriter* json) {
  json->Key("breakdown");
  json->BeginObject();
  WriteOne("at_peak", device.breakdown_at_peak, input, json);
  WriteOne("at_end", device.breakdown_at_end, input, json);
  json->EndObject();
  json->Key("device_use");
  json->BeginObject();
  json->Field("samples", device.use.samples);
  json->Field("peak_used_bytes", device.use.peak_used);
  json->Field("peak_used_time_ns", input.Since(device.use.peak_used_ns));
  json->Field("peak_own_bytes", device.use.peak_own);
  json->Field("peak_own_time_ns", input.Since(device.use.peak_own_ns));
  json->Key("neighbours");
  json->BeginArray();
  for (const Neighbour& neighbour : device.use.neighbours) {
    json->BeginObject(JsonLayout::kOneLine);
    json->Field("pid", neighbour.pid);
    TextOrNull("name", neighbour.name, json);
    json->Field("peak_bytes", neighbour.peak);
    json->Field("last_bytes", neighbour.last);
    json->Field("first_ns", input.Since(neighbour.first_ns));
    json->Field("last_ns", input.Since(neighbour.last_ns));
    json->EndObject();
  }
  json->EndArray();
  json->EndObject();
}

void WriteJsonDeviceSamples(const DeviceAnalysis& device, const ReportInput& input, JsonWriter* json) {
  json->Key("device_samples");
  json->BeginArray();
  for (const DeviceReading& reading : device.use.readings) {
    json->BeginObject(JsonLayout::kOneLine);
    WriteReading(reading, input, json);
    json->EndObject();
  }
  json->EndArray();
}

void WriteJsonSampling(const SamplingInfo& sampling, const ReportInput& input, JsonWriter* json) {
  json->Key("sampling");
  json->BeginObject();
  json->Field("samples", sampling.samples);
  json->Field("took_ns", sampling.took_ns);
  TextOrNull("source", sampling.source, json);
  TextOrNull("error", sampling.source_error, json);
  json->Field("process_rss_peak_bytes", sampling.peak_rss);
  json->Field("system_total_bytes", sampling.system_total);
  json->Field("system_least_available_bytes", sampling.least_system_available);
  json->Key("limits_reached");
  json->BeginArray();
  for (const CrossedLimit& limit : sampling.crossed) {
    json->BeginObject(JsonLayout::kOneLine);
    json->Field("device", limit.device);
    json->Field("time_ns", input.Since(limit.time_ns));
    json->Key("limit_percent");
    limit.percent == 0 ? json->Null() : json->Value(limit.percent);
    json->Key("limit_bytes");
    limit.percent != 0 ? json->Null() : json->Value(limit.bytes);
    json->Field("used_bytes", limit.used);
    json->Field("hardware_bytes", limit.total);
    FieldOrNull("own_bytes", limit.own, json);
    json->EndObject();
  }
  json->EndArray();
  json->EndObject();
}

}  // namespace gpumem
