// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Memory by category. `input.attribution` is set, and outlives the answer.

#ifndef GPUMEM_ANALYZER_ANSWERS_PARTS_ATTRIBUTION_ANSWER_H_
#define GPUMEM_ANALYZER_ANSWERS_PARTS_ATTRIBUTION_ANSWER_H_

#include "absl/strings/string_view.h"
#include "ledger/attribution/attribution.h"
#include "ledger/load/input.h"
#include "render/document.h"

namespace gpumem {

// The categories of a moment; `of`: what they are shares of ("the peak").
void AddCategories(const Moment& moment, absl::string_view of, const ReportInput& input, Document* answer);

// Everything alive at the first moment: categories, components, modules, names, stacks. `options.top` bounds lists of
// people and machines; 0 = all.
Document MomentAnswer(absl::string_view asked, const ReportInput& input, const TextOptions& options);
// What `gpumemshim at` answers.
Document AtAnswer(absl::string_view asked, const ReportInput& input, const TextOptions& options);

// The moments that the program asked for; nothing where it asked for none.
void AddSnapshots(const ReportInput& input, Document* answer);
// The same for machines, who get an empty list then.
void AddSnapshotFields(const ReportInput& input, Document* answer);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_PARTS_ATTRIBUTION_ANSWER_H_
