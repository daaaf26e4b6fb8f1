// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The answers of oom and fragmentation where somebody was asked what another setting of PyTorch's allocator would have
// done. `what_if`: null where nobody was. Pure functions.
//
//   console->Print(OomJson(loaded->input, &what_if, top));

#ifndef GPUMEM_ANALYZER_ANSWERS_REPORT_WHAT_IF_JSON_H_
#define GPUMEM_ANALYZER_ANSWERS_REPORT_WHAT_IF_JSON_H_

#include <cstddef>
#include <string>
#include <vector>

#include "answers/report/what_if.h"
#include "base/json_writer.h"
#include "ledger/load/input.h"

namespace gpumem {

std::string OomJson(const ReportInput& input, const WhatIfAnswer* what_if, size_t top);
void WriteJsonOoms(const std::vector<OomEvent>& ooms, const WhatIfAnswer* what_if, size_t top, const ReportInput& input,
                   JsonWriter* json);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_REPORT_WHAT_IF_JSON_H_
