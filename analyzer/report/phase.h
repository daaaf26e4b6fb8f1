// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Which part of a training a stack belongs to, as far as the stack alone tells it. Pure functions.
//
//   PhaseOf(frames)  "backward" for a stack of autograd's thread, "" where nothing tells

#ifndef GPUMEM_ANALYZER_REPORT_PHASE_H_
#define GPUMEM_ANALYZER_REPORT_PHASE_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "replay/analysis.h"
#include "report/input.h"
#include "symbols/symbolizer.h"

namespace gpumem {

// The title of the stack's stage (attribution/stage.h), "" where nothing tells.
absl::string_view PhaseOf(const std::vector<ResolvedFrame>& frames);

// The entry of `live` whose allocation made it as large as it is: the one with an allocation at that very instant.
// nullptr where none is (a window that begins at its peak).
const StackUse* ReachedBy(const LiveSet& live);

// What was going on when `live` was reached: " in backward"; "" where nothing tells.
std::string WhenText(const LiveSet& live, const ReportInput& input);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPORT_PHASE_H_
