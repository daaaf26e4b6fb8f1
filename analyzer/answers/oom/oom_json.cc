// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The JSON pieces of failed requests (json_parts.h).

#include "absl/strings/str_format.h"
#include "answers/oom/oom_story.h"
#include "answers/parts/pin_lines.h"
#include "answers/report/json_parts.h"
#include "answers/report/sections.h"
#include "answers/report/what_if_json.h"
#include "ledger/stacks/names.h"
#include "render/draw.h"

namespace gpumem {
namespace {

void KnownFieldOrNull(absl::string_view key, bool known, uint64_t value, JsonWriter* json) {
  json->Key(key);
  known ? json->Value(value) : json->Null();
}

absl::string_view StepName(OomStep::Kind kind) {
  switch (kind) {
    case OomStep::Kind::kFailed:
      return "failed";
    case OomStep::Kind::kReleased:
      return "released";
    case OomStep::Kind::kServed:
      return "served";
  }
  return "";
}

void WriteSteps(const OomEvent& oom, const ReportInput& input, JsonWriter* json) {
  json->Key("steps");
  json->BeginArray();
  for (const OomStep& step : oom.steps) {
    json->BeginObject(JsonLayout::kOneLine);
    json->Field("step", StepName(step.kind));
    json->Field("time_ns", input.Since(step.time_ns));
    json->Field("api", step.api);
    json->Field("bytes", step.bytes);
    json->Field("count", step.count);
    KnownFieldOrNull("device_free_bytes", step.device_stated, step.device_free, json);
    json->EndObject();
  }
  json->EndArray();
}

void WriteChain(const OomEvent& oom, const ReportInput& input, JsonWriter* json) {
  json->Field("started_ns", input.Since(oom.started_ns));
  json->Field("ended_ns", input.Since(oom.ended_ns));
  json->Field("cuda_requested_bytes", oom.cuda_requested);
  json->Field("released_bytes", oom.released);
  json->Field("limited", oom.limited);
  KnownFieldOrNull("limit_bytes", oom.limit != 0, oom.limit, json);
  WriteSteps(oom, input, json);
  const std::optional<uint64_t> unseen = UnseenBytes(oom);
  KnownFieldOrNull("device_free_bytes", oom.device_stated, oom.device_free, json);
  KnownFieldOrNull("unseen_bytes", unseen.has_value(), unseen.value_or(0), json);
  KnownFieldOrNull("pool_used_bytes", oom.pool_stated, oom.pool_used, json);
  KnownFieldOrNull("pool_reserved_bytes", oom.pool_stated, oom.pool_reserved, json);
  KnownFieldOrNull("torch_allocated_bytes", oom.torch_stated, oom.torch_allocated, json);
  KnownFieldOrNull("torch_reserved_bytes", oom.torch_stated, oom.torch_reserved, json);
}

void WriteFits(const OomEvent& oom, const WhatIfAnswer* what_if, JsonWriter* json) {
  KnownFieldOrNull("would_have_fit_bytes", oom.described, oom.would_have_fit, json);
  KnownFieldOrNull("fit_in_one_piece_bytes", oom.described, oom.fit_in_one_piece, json);
  KnownFieldOrNull("fit_expandable_bytes", oom.fit_expandable.has_value(), oom.fit_expandable.value_or(0), json);
  const bool is_replayed = what_if != nullptr && what_if->knows_fit();
  WriteJsonTextOrNull("fit_expandable_basis",
                      !is_replayed        ? "estimate"
                      : what_if->is_exact ? "replay"
                                          : "inexact_replay",
                      oom.fit_expandable.has_value(), json);
  json->Key("expandable_segments");
  oom.described ? json->Value(oom.expandable_segments) : json->Null();
  json->Field("whole_segments", oom.whole_segments);
  json->Field("whole_segment_bytes", oom.whole_segment_bytes);
}

void WriteActions(const OomEvent& oom, bool fit_is_replayed, const ReportInput& input, JsonWriter* json) {
  json->Field("cause", CauseOfOom(oom));
  json->Key("actions");
  json->BeginArray();
  if (oom.described) {
    for (const OomAction& action : ActionsOnOom(oom, input, fit_is_replayed)) {
      json->BeginObject();
      json->Field("action", action.action);
      json->Field("evidence", action.evidence);
      KnownFieldOrNull("bytes", action.bytes != 0, action.bytes, json);
      json->EndObject();
    }
  }
  json->EndArray();
}

void WriteOom(const OomEvent& oom, const WhatIfAnswer* what_if, size_t top, const ReportInput& input,
              JsonWriter* json) {
  const bool is_replayed = what_if != nullptr && what_if->knows_fit();
  json->BeginObject();
  json->Field("time_ns", input.Since(oom.time_ns));
  json->Field("device", oom.device);
  json->Field("layer", LayerName(oom.layer));
  json->Field("api", oom.api);
  json->Field("result", oom.result);
  json->Field("final", oom.final);
  json->Field("retries", oom.retries);
  json->Field("thread", oom.thread);
  json->Field("requested_bytes", oom.requested);
  KnownFieldOrNull("capacity_bytes", oom.device_total != 0, oom.device_total, json);
  json->Key("values");
  json->BeginObject();
  WriteJsonValues(oom.values, json);
  json->EndObject();
  WriteChain(oom, input, json);
  WriteFits(oom, what_if, json);
  json->Key("fragmentation");
  PointDatum(oom.fragmentation, input).Write(json);
  WriteActions(oom, is_replayed && what_if->is_exact, input, json);
  WriteJsonStack(oom.stack_id, oom.api, input, json);
  Document pins;
  AddListOfPinLines("pin_lines", "", oom.pin_groups, top, input, &pins);
  AddListOfPins("pins", "", oom.pins, top, input, &pins);
  WriteMembers(pins, json);
  WriteJsonLiveSet("live", oom.live, top, input, json);
  json->EndObject();
}

void WriteRetries(const ServedRetries& retries, size_t top, const ReportInput& input, JsonWriter* json) {
  json->BeginObject();
  json->Field("device", retries.device);
  json->Field("count", retries.count);
  json->Field("failed_calls", retries.failed_calls);
  json->Field("released_bytes", retries.released);
  json->Field("took_ns", retries.time_ns);
  json->Field("oldest_ns", input.Since(retries.first_ns));
  json->Field("newest_ns", input.Since(retries.last_ns));
  WriteJsonStacks("stacks", retries.stacks, top, input, json);
  json->EndObject();
}

}  // namespace

void WriteJsonOoms(const std::vector<OomEvent>& ooms, size_t top, const ReportInput& input, JsonWriter* json) {
  WriteJsonOoms(ooms, nullptr, top, input, json);
}

void WriteJsonOoms(const std::vector<OomEvent>& ooms, const WhatIfAnswer* what_if, size_t top, const ReportInput& input,
                   JsonWriter* json) {
  const OomEvent* const explained = OomToExplain(ooms);
  json->Key("ooms");
  json->BeginArray();
  for (const OomEvent& oom : ooms) WriteOom(oom, &oom == explained ? what_if : nullptr, top, input, json);
  json->EndArray();
  json->Key("served_retries");
  json->BeginArray();
  for (const ServedRetries& retries : input.analysis->retries) WriteRetries(retries, top, input, json);
  json->EndArray();
}

}  // namespace gpumem
