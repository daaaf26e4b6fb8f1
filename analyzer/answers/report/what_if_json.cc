// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/report/what_if_json.h"

#include "answers/report/json_parts.h"

namespace gpumem {
namespace {

void WriteRun(absl::string_view key, const WhatIfRun& run, JsonWriter* json) {
  json->Key(key);
  json->BeginObject(JsonLayout::kOneLine);
  json->Field("settings", run.settings);
  json->Field("peak_reserved_bytes", run.peak_reserved);
  json->Key("fit_bytes");
  run.fit.has_value() ? json->Value(*run.fit) : json->Null();
  json->EndObject();
}

}  // namespace

void WriteJsonWhatIf(const WhatIfAnswer* what_if, JsonWriter* json) {
  json->Key("what_if");
  if (what_if == nullptr) return json->Null();
  const WhatIfAnswer& answer = *what_if;
  json->BeginObject();
  json->Field("replayed", answer.is_replayed());
  WriteJsonTextOrNull("why_not", answer.why_not, !answer.is_replayed(), json);
  json->Field("device", answer.device);
  if (answer.is_replayed()) {
    json->Field("torch", answer.torch);
    json->Field("exact", answer.is_exact);
    json->Key("doubts");
    json->BeginArray();
    for (const std::string& doubt : answer.doubts) json->Value(doubt);
    json->EndArray();
    WriteRun("recorded", answer.recorded, json);
    WriteRun("other", answer.other, json);
  }
  json->EndObject();
}

}  // namespace gpumem
