// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The answer of `gpumem model` (docs/json.md).

#include "answers/parts/attribution_json.h"
#include "answers/parts/model_parts.h"
#include "answers/report/json_parts.h"
#include "base/shown.h"

namespace gpumem {
namespace {

void WriteParameter(const ParameterRow& row, const TensorInfo& tensor, const ObjectTable& objects,
                    const std::string& component, JsonWriter* json) {
  json->BeginObject(JsonLayout::kOneLine);
  json->Field("name", tensor.name);
  const NnModuleInfo* const root = objects.module(tensor.root);
  WriteJsonTextOrNull("root_class", root == nullptr ? "" : root->class_name, root != nullptr, json);
  json->Key("shape");
  json->BeginArray();
  for (const uint64_t length : tensor.shape) json->Value(length);
  json->EndArray();
  json->Field("elements", tensor.elements);
  json->Field("dtype", tensor.dtype);
  json->Field("device", tensor.device);
  json->Field("bytes", row.bytes);
  json->Field("trainable", tensor.trainable);
  json->Field("large", row.bytes > kLargeParameterBytes);
  json->Field("component", component);
  WriteJsonTextOrNull("optimizer", objects.optimizer_class(tensor.optimizer), tensor.optimizer != 0, json);
  json->Key("group");
  tensor.group == 0 ? json->Null() : json->Value(tensor.group - 1);
  json->Field("gradient_bytes", row.gradient_bytes);
  json->Field("optimizer_state_bytes", row.state_bytes);
  json->Key("other_names");
  json->BeginArray();
  for (const std::string& name : tensor.other_names) json->Value(name);
  json->EndArray();
  json->EndObject();
}

// Members of the object that is open.
void WriteSums(const ParameterSums& sums, JsonWriter* json) {
  json->Field("parameters", sums.parameters);
  json->Field("parameter_bytes", sums.parameter_bytes);
  json->Field("trainable_parameters", sums.trainable_parameters);
  json->Field("trainable_bytes", sums.trainable_bytes);
  json->Field("trainable_percent", sums.TrainablePercent());
  json->Field("frozen_parameters", sums.parameters - sums.trainable_parameters);
  json->Field("frozen_bytes", sums.parameter_bytes - sums.trainable_bytes);
  json->Field("gradient_bytes", sums.gradient_bytes);
  json->Field("optimizer_state_bytes", sums.state_bytes);
}

void WriteBytes(absl::string_view key, const GroupedSums& groups, JsonWriter* json) {
  json->Key(key);
  json->BeginObject();
  for (const auto& [name, sums] : groups) json->Field(name.empty() ? "unknown" : name, sums.parameter_bytes);
  json->EndObject();
}

void WriteTotals(const ModelTotals& totals, JsonWriter* json) {
  json->Key("totals");
  json->BeginObject();
  WriteSums(totals.all, json);
  json->Field("lora_parameters", totals.lora.parameters);
  json->Field("lora_bytes", totals.lora.parameter_bytes);
  WriteBytes("bytes_by_dtype", totals.by_type, json);
  WriteBytes("bytes_by_device", totals.by_device, json);
  json->EndObject();
}

void WriteGroups(absl::string_view by, const GroupedSums& groups, JsonWriter* json) {
  for (const auto& [name, sums] : groups) {
    json->BeginObject(JsonLayout::kOneLine);
    json->Field("by", by);
    json->Field("name", name.empty() ? "unknown" : name);
    WriteSums(sums, json);
    json->EndObject();
  }
}

}  // namespace

std::string ModelJson(const ReportInput& input, const ObjectTable& objects, size_t top) {
  return AttributionAnswer("model", input, [&](JsonWriter* json) {
    const std::vector<ParameterRow>& parameters = input.attribution->parameters;
    const ModelTotals totals = TotalsOf(*input.attribution, objects);
    WriteTotals(totals, json);
    json->Key("groups");
    json->BeginArray();
    WriteGroups("component", totals.by_component, json);
    WriteGroups("dtype", totals.by_type, json);
    WriteGroups("device", totals.by_device, json);
    WriteGroups("optimizer_group", totals.by_optimizer_group, json);
    json->EndArray();
    json->Key("parameters");
    json->BeginArray();
    for (size_t i = 0; i < Shown(parameters.size(), top); ++i) {
      const TensorInfo* const tensor = objects.tensor(parameters[i].tensor);
      if (tensor == nullptr) continue;
      WriteParameter(parameters[i], *tensor, objects, ComponentOf(parameters[i], *input.attribution), json);
    }
    json->EndArray();
  });
}

}  // namespace gpumem
