// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What the program was doing when a live set was reached, as far as the stack alone shows it. Pure functions.
//
//   WhenText(live, input)   // " in backward"

#ifndef GPUMEM_ANALYZER_ANSWERS_REPORT_LIVE_MOMENT_H_
#define GPUMEM_ANALYZER_ANSWERS_REPORT_LIVE_MOMENT_H_

#include <cstddef>
#include <string>

#include "ledger/attribution/stage.h"
#include "ledger/load/input.h"
#include "render/document.h"
#include "replay/analysis.h"

namespace gpumem {

// The entry of `live` whose allocation made it as large as it is: the one with an allocation at that very instant.
// nullptr where none is (a window that begins at its peak).
const StackUse* ReachedBy(const LiveSet& live);

// The stage of that allocation; kNone where none is, or where its stack does not show one.
Stage StageWhenReached(const LiveSet& live, const ReportInput& input);

// The same as words: " in backward"; "" for kNone.
std::string WhenText(const LiveSet& live, const ReportInput& input);

// For machines: what the set is of, its instant, and its largest `top` stacks (0 = all).
Document LiveSetFields(const LiveSet& live, size_t top, const ReportInput& input);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_REPORT_LIVE_MOMENT_H_
