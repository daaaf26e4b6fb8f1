// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What is said of a sweep, in English or Chinese; docs/commands/sweep.md has the fields. Pure functions; a part is not
// there where there is nothing to say. The answer outlives its documents.
//
//   console->Print(json ? ToJson(SweepDocument(answer)) : ToText(SweepDocument(answer), console->out_style()));

#ifndef GPUMEM_PLANNER_SWEEP_SWEEP_DOCUMENT_H_
#define GPUMEM_PLANNER_SWEEP_SWEEP_DOCUMENT_H_

#include "planner/sweep/answer.h"
#include "render/document.h"

namespace gpumem::plan {

// A line for each configuration, the largest that fits and the one with least memory, how memory grows along each axis,
// what the largest is made of, what was lost, and the files. As JSON: memory_profile_results.json.
Document SweepDocument(const SweepAnswer& answer);

// For machines: what each configuration's memory is made of: stages, components, operations, memory types, the course
// of time. detailed_memory_results.json.
Document DetailedDocument(const SweepAnswer& answer);

// What people read of a sweep. For SweepDocument.
void AddSweep(const SweepAnswer& answer, Document* document);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_SWEEP_SWEEP_DOCUMENT_H_
