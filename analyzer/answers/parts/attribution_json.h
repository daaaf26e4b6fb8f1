// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The JSON answers by category, module, stage and step (docs/json.md). `input.attribution` is set. Pure functions.

#ifndef GPUMEM_ANALYZER_ANSWERS_PARTS_ATTRIBUTION_JSON_H_
#define GPUMEM_ANALYZER_ANSWERS_PARTS_ATTRIBUTION_JSON_H_

#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "base/json_writer.h"
#include "ledger/attribution/attribution.h"
#include "ledger/load/input.h"

namespace gpumem {

// `top` bounds lists; 0 = all.
std::string AtJson(const ReportInput& input, absl::string_view asked, size_t top);

// An answer's common members, what it rests on, and what `rest` writes.
std::string AttributionAnswer(absl::string_view command, const ReportInput& input,
                              const std::function<void(JsonWriter*)>& rest);

// "categories": {...} with every category.
void WriteJsonCategories(absl::string_view key, const CategoryBytes& bytes, JsonWriter* json);
// Members of the object that is open: which device, and what the answer rests on.
void WriteJsonBasis(const Attribution& attribution, JsonWriter* json);
// Members of the object that is open: what a moment's memory was for, without modules and stacks.
void WriteJsonMoment(const Moment& moment, const ReportInput& input, JsonWriter* json);
// The same of the first moment, with its modules, names and stacks: what `gpumemshim at` says. `top`: of each list, 0 =
// all.
void WriteJsonAt(const ReportInput& input, size_t top, JsonWriter* json);

// "snapshots": [...], as WriteJsonMoment has each.
void WriteJsonSnapshots(const ReportInput& input, JsonWriter* json);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_PARTS_ATTRIBUTION_JSON_H_
