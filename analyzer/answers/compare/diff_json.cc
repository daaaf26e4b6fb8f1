// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/compare/diff_page.h"
#include "base/json_writer.h"
#include "ledger/stacks/names.h"

namespace gpumem {
namespace {

void WriteSide(absl::string_view key, const RunFacts& facts, JsonWriter* json) {
  json->Key(key);
  json->BeginObject();
  json->Field("trace", facts.name);
  json->Field("moment", facts.moment);
  json->Field("found", facts.has_moment);
  json->Field("time_ns", facts.time_ns);
  json->Field("step", facts.step);
  json->Field("device", facts.device);
  json->Field("measure", MeasureName(facts.measure));
  json->Field("allocated_bytes", facts.values.allocated);
  json->Field("reserved_bytes", facts.values.reserved);
  json->Field("other_bytes", facts.values.other);
  json->Field("total_bytes", facts.values.total);
  json->Field("context_bytes", facts.context);
  json->Field("peak_allocated_bytes", facts.peak_allocated);
  json->Field("peak_reserved_bytes", facts.peak_reserved);
  json->Field("peak_total_bytes", facts.peak_total);
  json->Field("peak_bound", PeakBoundName(facts.bound));
  json->Field("ended", RunEndingName(facts.ending));
  json->Field("damaged", facts.is_damaged);
  json->Field("lost_events", facts.lost_events);
  json->EndObject();
}

void WriteRows(absl::string_view key, const std::vector<DiffRow>& rows, size_t top, JsonWriter* json) {
  json->Key(key);
  json->BeginArray();
  size_t written = 0;
  for (const DiffRow& row : rows) {
    if (top != 0 && written++ == top) break;
    json->BeginObject(JsonLayout::kOneLine);
    json->Field("name", row.name);
    json->Key("was");
    row.was.empty() ? json->Null() : json->Value(row.was);
    json->Field("change", RowChangeName(row.change()));
    json->Field("delta_bytes", row.delta());
    json->Field("a_bytes", row.uses.a_bytes);
    json->Field("b_bytes", row.uses.b_bytes);
    json->Field("a_count", row.uses.a_count);
    json->Field("b_count", row.uses.b_count);
    json->EndObject();
  }
  json->EndArray();
}

void WriteChanges(const Diff& diff, JsonWriter* json) {
  json->Key("settings");
  json->BeginArray();
  for (const SettingChange& change : diff.settings) {
    json->BeginObject(JsonLayout::kOneLine);
    json->Field("what", change.what);
    json->Field("a", change.a);
    json->Field("b", change.b);
    json->EndObject();
  }
  json->EndArray();
  json->Key("renamed");
  json->BeginArray();
  for (const Renamed& each : diff.renamed) {
    json->BeginObject(JsonLayout::kOneLine);
    json->Field("kind", RenamedKindName(each.kind));
    json->Field("was", each.was);
    json->Field("now", each.now);
    json->EndObject();
  }
  json->EndArray();
}

}  // namespace

std::string DiffJson(const Diff& diff, size_t top) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject();
  json.Field("schema_version", kJsonSchemaVersion);
  json.Field("command", "diff");
  json.Field("headline", diff.headline);
  json.Field("subject", diff.subject);
  json.Field("delta_bytes", diff.delta);
  json.Key("cause");
  json.BeginObject(JsonLayout::kOneLine);
  json.Field("kind", CauseKindName(diff.cause.kind));
  json.Field("text", diff.cause.text);
  json.Field("explained_bytes", diff.cause.explained);
  json.EndObject();
  json.Key("doubts");
  json.BeginArray(JsonLayout::kOneLine);
  for (const std::string& doubt : diff.doubts) json.Value(doubt);
  json.EndArray();
  WriteSide("a", diff.a, &json);
  WriteSide("b", diff.b, &json);
  WriteChanges(diff, &json);
  WriteRows("totals", diff.series, 0, &json);
  WriteRows("categories", diff.categories, 0, &json);
  WriteRows("modules", diff.modules, top, &json);
  WriteRows("lines", diff.lines, top, &json);
  WriteRows("stacks", diff.stacks, top, &json);
  json.EndObject();
  out += '\n';
  return out;
}

}  // namespace gpumem
