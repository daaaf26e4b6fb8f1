// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Sections of a sweep's page. For sweep_page.cc.

#ifndef GPUMEM_PLANNER_SWEEP_SWEEP_PAGE_PARTS_H_
#define GPUMEM_PLANNER_SWEEP_SWEEP_PAGE_PARTS_H_

#include "planner/sweep/answer.h"
#include "render/page.h"

namespace gpumem::plan {

// "1.23 GiB"; "-" where 0 means that it is not known.
std::string BytesOrDash(uint64_t bytes);

// "4.7 s".
std::string SecondsText(double seconds);

// Memory types, components and stages of RowToExplain.
void AddMadeOf(const SweepAnswer& answer, Page* page);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_SWEEP_SWEEP_PAGE_PARTS_H_
