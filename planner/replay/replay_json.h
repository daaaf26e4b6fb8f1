// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A ReplayAnswer as JSON (docs/json.md).
//
//   console->Print(ReplayJson(answer, input));

#ifndef GPUMEM_PLANNER_REPLAY_REPLAY_JSON_H_
#define GPUMEM_PLANNER_REPLAY_REPLAY_JSON_H_

#include <string>

#include "planner/replay/replay_answer.h"
#include "report/input.h"

namespace gpumem::plan {

std::string ReplayJson(const ReplayAnswer& answer, const ReportInput& input);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_REPLAY_REPLAY_JSON_H_
