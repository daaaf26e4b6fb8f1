// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A sweep for machines: docs/commands/sweep.md has the fields. Pure functions.
//
//   fputs(SweepJson(answer).c_str(), stdout);   // --json, and memory_profile_results.json

#ifndef GPUMEM_PLANNER_SWEEP_SWEEP_JSON_H_
#define GPUMEM_PLANNER_SWEEP_SWEEP_JSON_H_

#include <string>

#include "planner/sweep/answer.h"

namespace gpumem::plan {

// The sweep, its laws and a line for each configuration.
std::string SweepJson(const SweepAnswer& answer);

// What each configuration's memory is made of: stages, components, operations, memory types, the course of time.
std::string DetailedJson(const SweepAnswer& answer);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_SWEEP_SWEEP_JSON_H_
