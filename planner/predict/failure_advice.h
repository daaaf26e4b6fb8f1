// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Says what to do where a planned program failed for a reason that has nothing to do with memory: what it wanted from a
// hub, weights that are not there, GPUs that it was not given.
//
//   AdviceOnFailure("... We couldn't connect to 'https://huggingface.co' ...")    // "a plan needs no weights: ..."
//
// Pure function of what the program wrote last; "" where nothing is recognized.

#ifndef GPUMEM_PLANNER_PREDICT_FAILURE_ADVICE_H_
#define GPUMEM_PLANNER_PREDICT_FAILURE_ADVICE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace gpumem::plan {

std::string AdviceOnFailure(absl::string_view output);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_PREDICT_FAILURE_ADVICE_H_
