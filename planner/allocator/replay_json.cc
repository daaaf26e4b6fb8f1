// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/allocator/replay_json.h"

#include "answers/report/json_parts.h"
#include "answers/report/trace_answer.h"
#include "base/json_writer.h"
#include "planner/allocator/replay_page.h"
#include "render/draw.h"

namespace gpumem::plan {
namespace {

void WriteDevices(const ReplayedRun& run, JsonWriter* json) {
  json->Key("devices");
  json->BeginArray();
  for (const auto& [device, need] : run.devices) {
    json->BeginObject(JsonLayout::kOneLine);
    json->Field("device", device);
    json->Field("peak_reserved_bytes", need.peak_reserved);
    json->Field("peak_allocated_bytes", need.peak_allocated);
    json->Field("free_at_peak_bytes", need.free_at_peak);
    json->Field("largest_free_range_bytes", need.largest_free_at_peak);
    json->EndObject();
  }
  json->EndArray();
}

void WriteDeath(const ReplayedRun& run, JsonWriter* json) {
  json->Key("out_of_memory");
  if (!run.death.has_value()) return json->Null();
  json->BeginObject(JsonLayout::kOneLine);
  json->Field("request", run.death->at);
  json->Field("device", run.death->device);
  json->Field("size_bytes", run.death->size);
  json->Field("of_torch", !run.death->outside);
  json->EndObject();
}

void WriteRun(const ReplayedRun& run, JsonWriter* json) {
  json->BeginObject();
  json->Field("settings", run.conf);
  json->Field("memory_bytes", run.memory);
  WriteJsonTextOrNull("error", run.error, !run.error.empty(), json);
  WriteDevices(run, json);
  json->Field("segments", run.segments.got);
  json->Field("segments_given_back", run.segments.given_back);
  json->Field("retries", run.retries);
  json->Field("failed_requests", run.failed);
  json->Field("served_requests", run.served);
  json->Field("requests_done", run.done);
  WriteDeath(run, json);
  WriteJsonTextOrNull("trace", run.trace, !run.trace.empty(), json);
  json->EndObject();
}

void WriteDifference(const ReplayAnswer& answer, JsonWriter* json) {
  json->Key("first_difference");
  if (!answer.difference.has_value()) return json->Null();
  json->BeginObject(JsonLayout::kOneLine);
  json->Field("device", answer.difference->device);
  json->Field("index", answer.difference->index);
  json->Field("recorded_bytes", answer.difference->recorded);
  json->Field("replayed_bytes", answer.difference->replayed);
  json->EndObject();
}

}  // namespace

std::string ReplayJson(const ReplayAnswer& answer, const ReportInput& input) {
  std::string text;
  JsonWriter json(&text);
  json.BeginObject();
  WriteMembers(HeadFields("replay", input), &json);
  json.Field("answer", ReplaySentence(answer));
  json.Field("exact", answer.is_exact());
  WriteDifference(answer, &json);
  json.Field("off_bytes", answer.off());
  json.Key("doubts");
  json.BeginArray();
  for (const std::string& doubt : answer.doubts) json.Value(doubt);
  json.EndArray();
  json.Field("torch", answer.torch);
  WriteJsonTextOrNull("torch_recorded", answer.torch_recorded, !answer.torch_recorded.empty(), &json);
  json.Field("device", answer.device);
  json.Field("requests", answer.facts.requests);
  json.Key("recorded");
  WriteRun(answer.recorded, &json);
  json.Key("replayed");
  WriteRun(answer.baseline, &json);
  json.Key("replayed_anew");
  if (answer.anew.has_value())
    WriteRun(*answer.anew, &json);
  else
    json.Null();
  json.Key("what_ifs");
  json.BeginArray();
  for (const ReplayedRun& run : answer.what_ifs) WriteRun(run, &json);
  json.EndArray();
  json.EndObject();
  return text + "\n";
}

}  // namespace gpumem::plan
