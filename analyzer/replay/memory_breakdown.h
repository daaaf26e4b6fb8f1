// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// How this process's share of a device is made up at one instant. Pure functions.
//
//   MemoryBreakdown breakdown = TakeBreakdown(state, slot, time_ns, event_index, names);  // from the state itself
//   CompleteBreakdown(counters, slot, true, cupti, device, &breakdown);  // once all samples were read

#ifndef GPUMEM_ANALYZER_REPLAY_MEMORY_BREAKDOWN_H_
#define GPUMEM_ANALYZER_REPLAY_MEMORY_BREAKDOWN_H_

#include <cstdint>

#include "replay/analysis.h"
#include "replay/counters.h"
#include "replay/state/live_state.h"
#include "trace/stack_table.h"

namespace gpumem {

MemoryBreakdown TakeBreakdown(const LiveState& state, uint32_t slot, uint64_t time_ns, uint64_t event_index,
                              const StackTable& names);

// Lays the sample that says most about the instant beside it. What changed between the two is added to what the sample
// says, so that a share can be stated for instants that nobody sampled. `all_calls_seen`: what is beyond the record
// shortly after a context was made is the context. `device` is CUDA's number, for what only CUPTI saw.
void CompleteBreakdown(const CounterLog& counters, uint32_t slot, bool all_calls_seen, const CuptiInfo& cupti,
                       int device, MemoryBreakdown* breakdown);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_MEMORY_BREAKDOWN_H_
