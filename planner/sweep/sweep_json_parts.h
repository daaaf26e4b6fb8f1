// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Pieces that both JSON files of a sweep have. For sweep_json.cc and detailed_json.cc.

#ifndef GPUMEM_PLANNER_SWEEP_SWEEP_JSON_PARTS_H_
#define GPUMEM_PLANNER_SWEEP_SWEEP_JSON_PARTS_H_

#include "base/json_writer.h"
#include "planner/sweep/answer.h"
#include "planner/sweep/row_json.h"

namespace gpumem::plan {

// What ran, on what, when: the members that every file begins with, in an open object.
void WriteHead(const SweepAnswer& answer, JsonWriter* json);

// "values": {"seq_len": 512, "optimizer": "adam"}: whole numbers as numbers.
void WriteValues(absl::string_view key, const Configuration& values, JsonWriter* json);

// 0 where nothing was seen would read as a measurement: null.
void WriteBytesOrNull(absl::string_view key, uint64_t bytes, JsonWriter* json);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_SWEEP_SWEEP_JSON_PARTS_H_
