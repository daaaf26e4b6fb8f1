// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What training did, as lists: its steps, its stages, the modules of its model, the model's parameters.
// `input.attribution` is set, and outlives the answer. `top` bounds the list (of steps: the last ones), 0 = all. Pure
// functions.
//
//   console->Print(ToJson(StepsAnswer(input, 0)));

#ifndef GPUMEM_ANALYZER_ANSWERS_TRAINING_TRAINING_H_
#define GPUMEM_ANALYZER_ANSWERS_TRAINING_TRAINING_H_

#include <cstddef>

#include "ledger/load/input.h"
#include "render/document.h"
#include "trace/object_table.h"

namespace gpumem {

Document StepsAnswer(const ReportInput& input, size_t top);
Document StagesAnswer(const ReportInput& input, size_t top);
Document ModulesAnswer(const ReportInput& input, size_t top);
// `objects` outlive the answer too.
Document ModelAnswer(const ReportInput& input, const ObjectTable& objects, size_t top);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_TRAINING_TRAINING_H_
