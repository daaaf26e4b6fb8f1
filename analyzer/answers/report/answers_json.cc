// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/report/answers_json.h"

#include <functional>

#include "answers/parts/attribution_json.h"
#include "answers/report/json_parts.h"
#include "answers/report/sections.h"
#include "answers/report/trace_answer.h"
#include "answers/report/verdict.h"
#include "base/json_writer.h"
#include "ledger/attribution/attribution.h"
#include "render/draw.h"

namespace gpumem {
namespace {

// The frame that all answers share: the common members, then `rest`.
std::string Answer(absl::string_view command, const ReportInput& input, const std::function<void(JsonWriter*)>& rest) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject();
  WriteJsonCommon(command, input, &json);
  rest(&json);
  json.EndObject();
  out += '\n';
  return out;
}

void WriteDevices(const ReportInput& input, JsonWriter* json, const std::function<void(const DeviceAnalysis&)>& rest) {
  json->Key("devices");
  json->BeginArray();
  for (const DeviceAnalysis& device : input.analysis->devices) {
    json->BeginObject();
    WriteJsonDeviceHead(device, input, json);
    rest(device);
    json->EndObject();
  }
  json->EndArray();
}

void WriteHostPinned(const Analysis& analysis, JsonWriter* json) {
  json->Key("host_pinned");
  HostPinnedDatum(analysis).Write(json);
}

void WriteResidual(const ResidualUse& use, JsonWriter* json) {
  json->Key("residual");
  json->BeginObject();
  json->Field("contexts", use.contexts);
  json->Field("context_bytes", use.context_bytes);
  json->Field("modules", use.modules);
  json->Field("module_bytes", use.module_bytes);
  json->Field("peak_context_bytes", use.peak_context_bytes);
  json->Field("peak_module_bytes", use.peak_module_bytes);
  json->EndObject();
}

// What the largest peak was for; null where the trace says nothing of that.
void WriteAttribution(const ReportInput& input, JsonWriter* json) {
  json->Key("attribution");
  if (input.attribution == nullptr || input.attribution->moments.empty()) return json->Null();
  json->BeginObject();
  WriteJsonBasis(*input.attribution, json);
  WriteJsonMoment(input.attribution->moments.front(), input, json);
  json->EndObject();
}

void WriteVerdict(const ReportInput& input, JsonWriter* json) {
  const Verdict verdict = MakeVerdict(input);
  json->Key("verdict");
  json->BeginObject();
  json->Field("kind", VerdictName(verdict.kind));
  const auto sentence = [json](absl::string_view key, const std::string& text) {
    json->Key(key);
    text.empty() ? json->Null() : json->Value(text);
  };
  sentence("problem", verdict.problem);
  sentence("peak", verdict.peak);
  sentence("mostly", verdict.mostly);
  sentence("action", verdict.action);
  json->EndObject();
}

}  // namespace

std::string ReportJson(const ReportInput& input, size_t top) {
  return Answer("report", input, [&](JsonWriter* json) {
    WriteVerdict(input, json);
    WriteHostPinned(*input.analysis, json);
    WriteJsonSampling(input.analysis->sampling, input, json);
    Document ooms;
    AddOomLists(input, nullptr, top, &ooms);
    WriteMembers(ooms, json);
    WriteAttribution(input, json);
    WriteJsonSnapshots(input, json);
    Document loops;
    AddLeakLoops(input, &loops);
    WriteMembers(loops, json);
    WriteDevices(input, json, [&](const DeviceAnalysis& device) {
      WriteResidual(device.residual, json);
      WriteJsonLiveSet("at_peak", LiveAtPeak(device, DefaultMeasure(device)), top, input, json);
      WriteJsonBreakdown(device, input, json);
      WriteMembers(TimelineFields(device, input), json);
      Document fragmentation;
      fragmentation.Object("fragmentation", "", FragmentationFields(device.fragmentation, top, input));
      WriteMembers(fragmentation, json);
      WriteMembers(LeakFields(device, top, input), json);
    });
  });
}

}  // namespace gpumem
