// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Moments of a trace by the names that a user types. Not thread-safe.
//
//   request.moments = {ParseMoment("epoch done#3", *loaded)};

#ifndef GPUMEM_ANALYZER_LEDGER_LOAD_MOMENT_H_
#define GPUMEM_ANALYZER_LEDGER_LOAD_MOMENT_H_

#include <string>

#include "absl/status/status.h"
#include "ledger/attribution/attribution.h"
#include "ledger/load/load_trace.h"

namespace gpumem {

// "peak", "end" (of the program's own code, where that is known), a time, "step 12" or "step:12", else a mark's text
// ("mark:TEXT" where that looks like something else). "TEXT#3" is the third mark with that text. A mark that only
// begins with the text counts where the program added something in parentheses, "epoch done (loss=0.3)", and no mark
// has exactly this text.
MomentQuery ParseMoment(const std::string& asked, const LoadedTrace& loaded);

// InvalidArgument: what the trace has instead, with the names nearest to `asked`.
absl::Status NoSuchMoment(const std::string& asked, const LoadedTrace& loaded);

// "the first of 12 marks with this name; 'epoch done#2' is the next", "" where the name has one meaning.
std::string OtherMarks(const std::string& asked, const LoadedTrace& loaded);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_LOAD_MOMENT_H_
