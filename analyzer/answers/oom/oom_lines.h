// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Lines about failed requests that the one-screen report and `gpumemshim oom` share.

#ifndef GPUMEM_ANALYZER_ANSWERS_OOM_OOM_LINES_H_
#define GPUMEM_ANALYZER_ANSWERS_OOM_OOM_LINES_H_

#include "ledger/load/input.h"
#include "render/document.h"
#include "replay/analysis.h"

namespace gpumem {

// "OUT OF MEMORY  GPU 0 at 12.3 s: PyTorch asked for 2.50 GiB (after 1 failed CUDA call)"
void AddOomHeading(const OomEvent& oom, const ReportInput& input, Document* answer);

// The requests that failed beside `explained`, grouped by the line that asked, and how many others were served later.
void AddOtherOoms(const OomEvent* explained, const ReportInput& input, Document* answer);

// What the requests cost that were served only after memory was given back. Brief: only where there were many.
void AddServedRetries(const ReportInput& input, Detail detail, Document* answer);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_OOM_OOM_LINES_H_
