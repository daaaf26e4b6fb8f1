// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The JSON answer of each subcommand that reads a trace, as one object with a final newline. docs/json.md documents the
// fields.

#ifndef GPUMEM_ANALYZER_ANSWERS_REPORT_ANSWERS_JSON_H_
#define GPUMEM_ANALYZER_ANSWERS_REPORT_ANSWERS_JSON_H_

#include <string>

#include "ledger/load/input.h"
#include "replay/analysis.h"

namespace gpumem {

// `top` bounds every list of stacks and blocks; 0 = all.
std::string ReportJson(const ReportInput& input, size_t top);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_REPORT_ANSWERS_JSON_H_
