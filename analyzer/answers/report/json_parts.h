// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Pieces of JSON answers that are no documents (docs/house.md). Each writes members into the object that is open. Sizes
// are bytes, times nanoseconds from the first event on, addresses hexadecimal strings.

#ifndef GPUMEM_ANALYZER_ANSWERS_REPORT_JSON_PARTS_H_
#define GPUMEM_ANALYZER_ANSWERS_REPORT_JSON_PARTS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "base/json_writer.h"
#include "replay/analysis.h"
#include "trace/event_batch.h"

namespace gpumem {

void WriteJsonTextOrNull(absl::string_view key, const std::string& text, bool known, JsonWriter* json);
void WriteJsonValues(const MeasureValues& values, JsonWriter* json);  // members

// Members of an event's object: when, what, where and how large. `since`: ns from the first event on.
void WriteJsonEvent(const EventRow& row, uint64_t since, JsonWriter* json);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_REPORT_JSON_PARTS_H_
