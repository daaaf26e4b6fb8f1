// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/report/json_parts.h"

#include "absl/strings/str_format.h"
#include "ledger/stacks/names.h"

namespace gpumem {

void WriteJsonTextOrNull(absl::string_view key, const std::string& text, bool known, JsonWriter* json) {
  json->Key(key);
  known ? json->Value(text) : json->Null();
}

void WriteJsonValues(const MeasureValues& values, JsonWriter* json) {
  json->Field("allocated_bytes", values.allocated);
  json->Field("reserved_bytes", values.reserved);
  json->Field("other_bytes", values.other);
  json->Field("total_bytes", values.total);
}

void WriteJsonEvent(const EventRow& row, uint64_t since, JsonWriter* json) {
  json->Field("time_ns", since);
  json->Field("layer", LayerName(static_cast<uint8_t>(row.layer)));
  json->Field("kind", EventKindName(static_cast<uint32_t>(row.kind)));
  json->Field("memory", MemoryName(static_cast<uint8_t>(row.memory)));
  json->Field("device", row.device);
  json->Field("address", absl::StrFormat("0x%x", row.address));
  json->Field("size_bytes", row.size);
  json->Field("requested_bytes", row.requested_size);
  json->Field("stream", absl::StrFormat("0x%x", row.stream));
}

}  // namespace gpumem
