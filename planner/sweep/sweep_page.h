// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A sweep as text for people, in English or Chinese. Pure function; adds nothing where there is nothing to say.
//
//   Page page(DetectStyle(STDOUT_FILENO));
//   AddSweep(answer, &page);

#ifndef GPUMEM_PLANNER_SWEEP_SWEEP_PAGE_H_
#define GPUMEM_PLANNER_SWEEP_SWEEP_PAGE_H_

#include "planner/sweep/answer.h"
#include "render/page.h"

namespace gpumem::plan {

// A line for each configuration, the largest that fits and the one with least memory, how memory grows along each axis,
// what the largest is made of, what was lost, and the files.
void AddSweep(const SweepAnswer& answer, Page* page);

// Sections of a sweep's page. For sweep_page.cc.

// "1.23 GiB"; "-" where 0 means that it is not known.
std::string BytesOrDash(uint64_t bytes);

// "4.7 s".
std::string SecondsText(double seconds);

// Memory types, components and stages of RowToExplain.
void AddMadeOf(const SweepAnswer& answer, Page* page);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_SWEEP_SWEEP_PAGE_H_
