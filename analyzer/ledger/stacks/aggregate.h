// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// AggregateStacks: an open trace and a selection in, AggregatedStacks out. Called from Analyze's further look; the
// views "peak" and "leaks" replay a short stretch from a checkpoint, "total" and "temporary" the whole section once
// more (about 40 ns an event). Memory: the live set, and at most twice StackSelection::most_stacks entries. Never
// fails; any trace is accepted.
//
//   AggregatedStacks aggregated;
//   Analyze(path, asked, &stacks, progress,
//           [&](const OpenTrace& trace) { aggregated = AggregateStacks(trace, asked, selection); });
//
// `asked` is what Analyze was asked for: its device, layer and times hold here too. Without a device every GPU is
// aggregated, each at its own peak: do not add their bytes up in the view "peak".

#ifndef GPUMEM_ANALYZER_LEDGER_STACKS_AGGREGATE_H_
#define GPUMEM_ANALYZER_LEDGER_STACKS_AGGREGATE_H_

#include <functional>
#include <optional>

#include "ledger/saved/life_table.h"
#include "ledger/stacks/aggregated_stacks.h"
#include "ledger/stacks/selection.h"
#include "replay/analysis.h"
#include "replay/analyze.h"

namespace gpumem {

AggregatedStacks AggregateStacks(const OpenTrace& trace, const AnalyzeOptions& asked, const StackSelection& selection,
                                 const ProgressCallback& progress = nullptr);

// Whether what a view selects of a whole trace can be told from its lives: not memory outside of all devices.
inline bool IsInLives(const StackSelection& selection) { return !IsOfProcess(selection.measure); }
// The same of a whole trace whose lives are kept, without an event. Nothing where it is not IsInLives, or where they do
// not add up to what the analysis says, or are not those of a view: a free that failed ends a life here, and none
// there.
std::optional<AggregatedStacks> AggregateKept(const LifeTable& lives, const Analysis& analysis, const StackTable& names,
                                              const StackSelection& selection);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_STACKS_AGGREGATE_H_
