// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The JSON pieces of fragmentation (json_parts.h).

#include "absl/strings/str_format.h"
#include "answers/parts/pin_lines.h"
#include "answers/report/json_parts.h"

namespace gpumem {
namespace {

std::string Address(uint64_t address) { return absl::StrFormat("0x%x", address); }

void WritePoint(absl::string_view key, const FragmentationPoint& point, const ReportInput& input, JsonWriter* json) {
  json->Key(key);
  WriteJsonFragmentationPoint(point, input, json);
}

}  // namespace

void WriteJsonPinLines(absl::string_view key, const std::vector<PinGroup>& groups, size_t top, const ReportInput& input,
                       JsonWriter* json) {
  const std::vector<PinLine> lines = PinLines(groups, input);
  json->Key(key);
  json->BeginArray();
  for (size_t i = 0; i < (top == 0 ? lines.size() : std::min(top, lines.size())); ++i) {
    const PinGroup& group = lines[i].group;
    json->BeginObject();
    json->Field("blocks", group.blocks);
    json->Field("block_bytes", group.block_bytes);
    json->Field("segments", group.segments);
    json->Field("returnable_bytes", group.returnable);
    json->Field("oldest_ns", input.Since(group.oldest_ns));
    json->Key("other_lines");
    json->BeginArray();
    for (const std::string& site : lines[i].others) json->Value(site);
    json->EndArray();
    WriteJsonStack(lines[i].stack_id, "", input, json);
    json->EndObject();
  }
  json->EndArray();
}

void WriteJsonPins(absl::string_view key, const std::vector<PinningBlock>& pins, size_t top, const ReportInput& input,
                   JsonWriter* json) {
  json->Key(key);
  json->BeginArray();
  const size_t count = top == 0 ? pins.size() : std::min(top, pins.size());
  for (size_t i = 0; i < count; ++i) {
    const PinningBlock& pin = pins[i];
    json->BeginObject();
    json->Field("segment_address", Address(pin.segment_address));
    json->Field("segment_bytes", pin.segment_bytes);
    json->Field("segment_free_bytes", pin.segment_free);
    json->Field("block_address", Address(pin.block_address));
    json->Field("block_bytes", pin.block_bytes);
    json->Field("blocks_in_segment", pin.blocks_in_segment);
    json->Field("returnable_bytes", pin.returnable);
    json->Field("allocated_ns", input.Since(pin.allocated_ns));
    WriteJsonStack(pin.stack_id, "", input, json);
    json->EndObject();
  }
  json->EndArray();
}

void WriteJsonFragmentationPoint(const FragmentationPoint& point, const ReportInput& input, JsonWriter* json) {
  json->BeginObject(JsonLayout::kOneLine);
  json->Field("time_ns", input.Since(point.time_ns));
  json->Field("reserved_bytes", point.reserved);
  json->Field("allocated_bytes", point.allocated);
  json->Field("free_bytes", point.free);
  json->Field("largest_free_range_bytes", point.largest_free_range);
  json->Field("free_ranges", point.free_ranges);
  json->Field("external_ratio", point.external_ratio);
  json->Key("rounding_bytes");
  point.requested_known ? json->Value(point.rounding) : json->Null();
  json->Field("empty_cache_bytes", point.empty_cache);
  json->EndObject();
}

void WriteJsonFragmentation(const Fragmentation& fragmentation, size_t top, const ReportInput& input,
                            JsonWriter* json) {
  json->Key("fragmentation");
  json->BeginObject();
  WritePoint("at_peak", fragmentation.at_peak, input, json);
  WritePoint("at_end", fragmentation.at_end, input, json);
  json->Key("pools");
  json->BeginArray();
  for (const PoolFragmentation& pool : fragmentation.pools) {
    json->BeginObject();
    json->Field("pool", pool.pool);
    WritePoint("at_peak", pool.at_peak, input, json);
    WritePoint("at_end", pool.at_end, input, json);
    json->EndObject();
  }
  json->EndArray();
  json->Key("over_time");
  json->BeginArray();
  for (const FragmentationPoint& point : fragmentation.over_time) WriteJsonFragmentationPoint(point, input, json);
  json->EndArray();
  WriteJsonPinLines("pin_lines_at_peak", fragmentation.groups_at_peak, top, input, json);
  WriteJsonPinLines("pin_lines_at_end", fragmentation.groups_at_end, top, input, json);
  WriteJsonPins("pins_at_peak", fragmentation.pins_at_peak, top, input, json);
  WriteJsonPins("pins_at_end", fragmentation.pins_at_end, top, input, json);
  json->EndObject();
}

}  // namespace gpumem
