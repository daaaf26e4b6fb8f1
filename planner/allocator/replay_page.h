// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A ReplayAnswer as one screen: the answer in a sentence, a row a setting, and how far it can be trusted.
//
//   AddReplay(answer, &page);
//
// Thread-safety: pure functions.

#ifndef GPUMEM_PLANNER_ALLOCATOR_REPLAY_PAGE_H_
#define GPUMEM_PLANNER_ALLOCATOR_REPLAY_PAGE_H_

#include <string>

#include "planner/allocator/replay_answer.h"
#include "render/page.h"

namespace gpumem::plan {

void AddReplay(const ReplayAnswer& answer, Page* page);

// The answer in one sentence, without a full stop: "expandable_segments:True would have kept 4.10 GiB less reserved
// (12.3 GiB -> 8.20 GiB)".
std::string ReplaySentence(const ReplayAnswer& answer);

// How settings are named: "defaults" where there are none.
std::string ConfName(const std::string& conf);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_ALLOCATOR_REPLAY_PAGE_H_
