// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A sweep for machines: docs/commands/sweep.md has the fields. Pure functions.
//
//   fputs(SweepJson(answer).c_str(), stdout);   // --json, and memory_profile_results.json

#ifndef GPUMEM_PLANNER_SWEEP_SWEEP_JSON_H_
#define GPUMEM_PLANNER_SWEEP_SWEEP_JSON_H_

#include <string>

#include "base/json_writer.h"
#include "planner/sweep/answer.h"
#include "planner/sweep/row_json.h"

namespace gpumem::plan {

// The sweep, its laws and a line for each configuration.
std::string SweepJson(const SweepAnswer& answer);

// What each configuration's memory is made of: stages, components, operations, memory types, the course of time.
std::string DetailedJson(const SweepAnswer& answer);

// Pieces that both JSON files of a sweep have.

// What ran, on what, when: the members that every file begins with, in an open object.
void WriteHead(const SweepAnswer& answer, JsonWriter* json);

// "values": {"seq_len": 512, "optimizer": "adam"}: whole numbers as numbers.
void WriteValues(absl::string_view key, const Configuration& values, JsonWriter* json);

// 0 where nothing was seen would read as a measurement: null.
void WriteBytesOrNull(absl::string_view key, uint64_t bytes, JsonWriter* json);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_SWEEP_SWEEP_JSON_H_
