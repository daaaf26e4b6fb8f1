// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// When memory that belongs to no GPU (pinned, managed, imported) was highest, and what it was at the end. Analysis has
// these sums without their moments, since few ask for them: this replays the section once more.
//
//   const ProcessMoments moments = FindProcessMoments(trace, ViewMeasure::kPinned, 0, UINT64_MAX);
//   Revisit(trace.reader, *trace.checkpoints, {{moments.peak.event_index, look}});

#ifndef GPUMEM_ANALYZER_LEDGER_STACKS_PROCESS_MOMENTS_H_
#define GPUMEM_ANALYZER_LEDGER_STACKS_PROCESS_MOMENTS_H_

#include <cstdint>

#include "ledger/stacks/selection.h"
#include "replay/analysis.h"
#include "replay/analyze.h"

namespace gpumem {

struct ProcessMoments {
  SeriesPeak peak;                // bytes 0: there was never any
  uint64_t end_bytes = 0;         // at the end, or at `to_ns`
  uint64_t last_event_index = 0;  // the state then is the one after this event
};

// The peak between the two times, both absolute; what was there when the window opened counts. IsOfProcess(measure).
// The reader stands anywhere afterwards. Never fails.
ProcessMoments FindProcessMoments(const OpenTrace& trace, ViewMeasure measure, uint64_t from_ns, uint64_t to_ns);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_STACKS_PROCESS_MOMENTS_H_
