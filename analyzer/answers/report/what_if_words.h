// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What a WhatIfAnswer says to people: the other setting's need, and on what that rests. Pure functions.
//
//   AddWhatIf(what_if, &answer);

#ifndef GPUMEM_ANALYZER_ANSWERS_REPORT_WHAT_IF_WORDS_H_
#define GPUMEM_ANALYZER_ANSWERS_REPORT_WHAT_IF_WORDS_H_

#include "answers/report/what_if.h"
#include "ledger/load/input.h"
#include "render/document.h"

namespace gpumem {

// For machines; null where nobody was asked.
Datum WhatIfDatum(const WhatIfAnswer* what_if);

// Why an estimate stands where a replay could: a line, or nothing where it was replayed exactly.
void AddWhyEstimated(const WhatIfAnswer& what_if, Document* answer);

// How much PyTorch would have reserved under the other setting.
void AddWhatIf(const WhatIfAnswer& what_if, Document* answer);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_REPORT_WHAT_IF_WORDS_H_
