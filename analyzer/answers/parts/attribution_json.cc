// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/parts/attribution_json.h"

#include <algorithm>

#include "answers/parts/attribution_parts.h"
#include "answers/parts/categories.h"
#include "answers/report/json_parts.h"
#include "answers/report/marks.h"
#include "base/shown.h"
#include "ledger/stacks/names.h"

namespace gpumem {
namespace {

void NullIfZero(absl::string_view key, uint64_t number, JsonWriter* json) {
  json->Key(key);
  number == 0 ? json->Null() : json->Value(number);
}

// Members that name a module.
void WriteModule(const ModuleRow& row, JsonWriter* json) {
  WriteJsonTextOrNull("fqn", row.fqn, row.root != 0, json);
  WriteJsonTextOrNull("class", row.class_name, !row.class_name.empty(), json);
  WriteJsonTextOrNull("root_class", row.root_class, !row.root_class.empty(), json);
  json->Field("component", row.component);
}

void WriteDetails(const Moment& moment, JsonWriter* json) {
  json->Key("category_details");
  json->BeginArray();
  for (size_t i = 0; i < kCategories; ++i) {
    if (moment.categories[i] == 0) continue;
    json->BeginObject(JsonLayout::kOneLine);
    json->Field("category", CategoryName(static_cast<Category>(i)));
    json->Field("bytes", moment.categories[i]);
    json->Field("tensor_bytes", moment.tensor_bytes[i]);
    json->Field("count", moment.counts[i]);
    json->Key("known_by");
    json->BeginObject();
    for (size_t k = 0; k < kEvidences; ++k) {
      if (moment.by_evidence[i][k] != 0) json->Field(EvidenceName(static_cast<Evidence>(k)), moment.by_evidence[i][k]);
    }
    json->EndObject();
    json->EndObject();
  }
  json->EndArray();
}

// "category_parts": an object of those that have bytes, by category.
void WriteParts(const Moment& moment, JsonWriter* json) {
  json->Key("category_parts");
  json->BeginObject();
  for (const Category category : {Category::kParameter, Category::kGradient}) {
    json->Key(CategoryName(category));
    json->BeginObject(JsonLayout::kOneLine);
    for (size_t i = 0; i < kParts; ++i) {
      const auto part = static_cast<Part>(i);
      if (CategoryOf(part) == category) json->Field(PartName(part), moment.parts[i]);
    }
    json->EndObject();
  }
  json->EndObject();
}

// "by_category": those that have bytes.
void WriteByCategory(const CategoryBytes& bytes, JsonWriter* json) {
  json->Key("by_category");
  json->BeginObject(JsonLayout::kOneLine);
  for (size_t i = 0; i < kCategories; ++i) {
    if (bytes[i] != 0) json->Field(CategoryName(static_cast<Category>(i)), bytes[i]);
  }
  json->EndObject();
}

void WriteByStage(absl::string_view key, const std::array<uint64_t, kStages>& bytes, JsonWriter* json) {
  json->Key(key);
  json->BeginObject();
  for (size_t i = 0; i < kStages; ++i) {
    if (bytes[i] != 0) json->Field(StageName(static_cast<Stage>(i)), bytes[i]);
  }
  json->EndObject();
}

void WriteNames(const Moment& moment, const Attribution& attribution, size_t top, JsonWriter* json) {
  const std::vector<NamedBytes> names = BytesByName(moment, attribution);
  json->Key("names");
  json->BeginArray();
  for (size_t i = 0; i < Shown(names.size(), top); ++i) {
    json->BeginObject();
    json->Field("name", names[i].name);
    json->Field("bytes", names[i].bytes);
    json->Field("tensor_bytes", names[i].tensor_bytes);
    json->Field("count", names[i].count);
    WriteByCategory(names[i].by_category, json);
    json->EndObject();
  }
  json->EndArray();
}

void WriteModules(const Moment& moment, const Attribution& attribution, size_t top, JsonWriter* json) {
  const std::vector<ModuleBytes> modules = BytesByModule(moment);
  json->Key("modules");
  json->BeginArray();
  for (size_t i = 0; i < Shown(modules.size(), top); ++i) {
    json->BeginObject();
    WriteModule(attribution.modules[modules[i].module], json);
    json->Field("bytes", modules[i].bytes);
    WriteByCategory(modules[i].by_category, json);
    json->EndObject();
  }
  json->EndArray();
}

void WriteComponents(const Moment& moment, const Attribution& attribution, JsonWriter* json) {
  json->Key("component_details");
  json->BeginArray();
  for (const ComponentBytes& row : DetailsByComponent(moment, attribution)) {
    json->BeginObject();
    json->Field("component", row.component);
    json->Field("bytes", row.bytes);
    WriteByCategory(row.by_category, json);
    WriteByStage("by_stage", row.by_stage, json);
    json->EndObject();
  }
  json->EndArray();
}

void WriteUses(const Moment& moment, const ReportInput& input, size_t top, JsonWriter* json) {
  json->Field("stack_count", moment.uses.size());
  json->Key("stacks");
  json->BeginArray();
  for (size_t i = 0; i < Shown(moment.uses.size(), top); ++i) {
    const AttributedUse& use = moment.uses[i];
    json->BeginObject();
    json->Field("bytes", use.bytes);
    json->Field("tensor_bytes", use.tensor_bytes);
    json->Field("count", use.count);
    json->Field("layer", LayerName(use.layer));
    json->Field("memory", MemoryName(use.memory));
    json->Field("category", CategoryName(use.category));
    json->Field("known_by", EvidenceName(use.evidence));
    json->Field("stage", StageName(use.stage));
    json->Field("stage_path", StagePath(input.attribution->user_stages[use.user_stage], use.stage));
    json->Field("recomputed", use.recomputed);
    const auto name = input.attribution->names.find(use.name);
    const bool is_named = name != input.attribution->names.end();
    WriteJsonTextOrNull("name", is_named ? name->second : "", is_named, json);
    WriteModule(input.attribution->modules[use.module], json);
    WriteJsonStack(use.stack_id, "", input, json);
    json->EndObject();
  }
  json->EndArray();
}

}  // namespace

std::string AttributionAnswer(absl::string_view command, const ReportInput& input,
                              const std::function<void(JsonWriter*)>& rest) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject();
  WriteJsonCommon(command, input, &json);
  WriteJsonBasis(*input.attribution, &json);
  rest(&json);
  json.EndObject();
  out += '\n';
  return out;
}

void WriteJsonCategories(absl::string_view key, const CategoryBytes& bytes, JsonWriter* json) {
  json->Key(key);
  CategoriesDatum(bytes).Write(json);
}

void WriteJsonBasis(const Attribution& attribution, JsonWriter* json) {
  json->Field("device", attribution.device);
  json->Field("has_tensors", attribution.has_tensors);
  json->Field("has_saved", attribution.has_saved);
  json->Field("unplaced_tensors", attribution.unplaced);
}

void WriteJsonMoment(const Moment& moment, const ReportInput& input, JsonWriter* json) {
  json->Field("time_ns", input.Since(moment.time_ns));
  NullIfZero("step", moment.step, json);
  json->Field("bytes", moment.Total());
  json->Key("values");
  json->BeginObject();
  WriteJsonValues(moment.values, json);
  json->EndObject();
  WriteJsonCategories("categories", moment.categories, json);
  WriteDetails(moment, json);
  WriteParts(moment, json);
  json->Key("components");
  json->BeginObject();
  for (const auto& [component, bytes] : BytesByComponent(moment, *input.attribution)) json->Field(component, bytes);
  json->EndObject();
  WriteComponents(moment, *input.attribution, json);
  WriteByStage("stages", BytesByStage(moment), json);
  json->Key("stage_paths");
  json->BeginObject();
  for (const auto& [path, bytes] : BytesByStagePath(moment, *input.attribution)) json->Field(path, bytes);
  json->EndObject();
}

std::string AtJson(const ReportInput& input, absl::string_view asked, size_t top) {
  return AttributionAnswer("at", input, [&](JsonWriter* json) {
    json->Field("asked", asked);
    WriteJsonAt(input, top, json);
  });
}

void WriteJsonAt(const ReportInput& input, size_t top, JsonWriter* json) {
  const Moment& moment = input.attribution->moments.front();
  WriteJsonMoment(moment, input, json);
  json->Key("where");
  PlaceDatum(moment.time_ns, input).Write(json);
  WriteModules(moment, *input.attribution, top, json);
  WriteNames(moment, *input.attribution, top, json);
  WriteUses(moment, input, top, json);
}

void WriteJsonSnapshots(const ReportInput& input, JsonWriter* json) {
  json->Key("snapshots");
  json->BeginArray();
  for (const Moment* const moment : SnapshotsOf(input.attribution)) {
    json->BeginObject();
    json->Field("name", moment->asked);
    WriteJsonMoment(*moment, input, json);
    json->EndObject();
  }
  json->EndArray();
  json->Field("snapshots_left_out", CountSnapshots(*input.analysis) - SnapshotsOf(input.attribution).size());
}

}  // namespace gpumem
