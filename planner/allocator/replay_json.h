// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A ReplayAnswer as JSON (docs/json.md).
//
//   console->Print(ReplayJson(answer, input));

#ifndef GPUMEM_PLANNER_ALLOCATOR_REPLAY_JSON_H_
#define GPUMEM_PLANNER_ALLOCATOR_REPLAY_JSON_H_

#include <string>

#include "ledger/load/input.h"
#include "planner/allocator/replay_answer.h"

namespace gpumem::plan {

std::string ReplayJson(const ReplayAnswer& answer, const ReportInput& input);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_ALLOCATOR_REPLAY_JSON_H_
