// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// An outlook as JSON: of `gpumemshim forecast`, and the same fields in the warnings of `gpumemshim forecast --watch`
// (docs/json.md).
//
//   WriteOutlook(outlook, &json);   // "device": 0, "sentence": "at this rate ...", "kind": "reaches", ...

#ifndef GPUMEM_ANALYZER_ANSWERS_OUTLOOK_OUTLOOK_JSON_H_
#define GPUMEM_ANALYZER_ANSWERS_OUTLOOK_OUTLOOK_JSON_H_

#include <string>

#include "answers/outlook/outlook.h"
#include "base/json_writer.h"
#include "ledger/load/input.h"

namespace gpumem {

// All fields, into the object that is open. Null where there is no such number.
void WriteOutlook(const Outlook& outlook, JsonWriter* json);

// The whole answer of `gpumemshim forecast --json`.
std::string OutlookJson(const Outlook& outlook, const ReportInput& input);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_OUTLOOK_OUTLOOK_JSON_H_
