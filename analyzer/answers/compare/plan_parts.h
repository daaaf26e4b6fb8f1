// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Says by part where a run differed from what `gpumemshim plan` recorded of it: context, loaded code, libraries,
// workspaces, tensors (by batch and data where these differ), the allocator, other processes.
//
//   if (PlanOf(diff.a, diff.b) != PlanSide::kNone) diff.parts = FindPlanParts(diff);
//   PlanSentence(diff)    // "the run needed 2.9 GiB more than its plan: workspaces +2.7 GiB; CUDA context +200 MiB"
//
// Parts of the process add up to what it needed, each at its own peak. Bytes; pure functions; never fails.

#ifndef GPUMEM_ANALYZER_ANSWERS_COMPARE_PLAN_PARTS_H_
#define GPUMEM_ANALYZER_ANSWERS_COMPARE_PLAN_PARTS_H_

#include <string>
#include <vector>

#include "answers/compare/diff.h"

namespace gpumem {

// Which of two runs is a plan of the other. kNone: neither, or both.
enum class PlanSide : uint8_t { kNone, kA, kB };
PlanSide PlanOf(const RunFacts& a, const RunFacts& b);

// Empty where neither is a plan, or the peaks are not what is compared. Needs the cause of `diff`.
std::vector<PlanPart> FindPlanParts(const Diff& diff);

std::string PlanSentence(const Diff& diff);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_COMPARE_PLAN_PARTS_H_
