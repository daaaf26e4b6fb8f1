// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What a moment's memory was for, by component, module, name and stack: the lists of `gpumemshim at`, each declared
// once for people and machines. `input.attribution` is set, and outlives the answer, as `moment` does. Pure functions.

#ifndef GPUMEM_ANALYZER_ANSWERS_PARTS_MOMENT_FIELDS_H_
#define GPUMEM_ANALYZER_ANSWERS_PARTS_MOMENT_FIELDS_H_

#include <cstddef>

#include "ledger/attribution/attribution.h"
#include "ledger/load/input.h"
#include "render/document.h"

namespace gpumem {

// For machines: the moment and its categories, components and stages, without modules and stacks.
Document MomentFields(const Moment& moment, const ReportInput& input);

// For people: of each component what its forward and backward passes and the optimizer allocated; the rest was there
// before. Machines have it in MomentFields.
void AddComponents(const Moment& moment, const ReportInput& input, Document* answer);

// The largest `top` (0 = all); people get no heading where there is none.
void AddModules(const Moment& moment, const ReportInput& input, size_t top, Document* answer);
void AddNames(const Moment& moment, const ReportInput& input, size_t top, Document* answer);
// For machines: each stack once for each category, evidence and module that its blocks have.
void AddUses(const Moment& moment, const ReportInput& input, size_t top, Document* answer);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_PARTS_MOMENT_FIELDS_H_
