// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The live set of a device at one instant, grouped by stack, and the difference of two. Pure functions.

#ifndef GPUMEM_ANALYZER_REPLAY_LIVE_SET_H_
#define GPUMEM_ANALYZER_REPLAY_LIVE_SET_H_

#include <cstdint>
#include <vector>

#include "replay/analysis.h"
#include "replay/state/live_state.h"
#include "trace/stack_table.h"

namespace gpumem {

// What `measure` counts: torch blocks; torch segments; other CUDA memory; or segments and other. `names` resolves the
// functions' names.
LiveSet CollectLiveSet(const LiveState& state, uint32_t slot, Measure measure, uint64_t time_ns, uint64_t event_index,
                       const StackTable& names);

// Measure::kOther, also by the thread that allocated and the communicator of NCCL that was being made.
std::vector<StackUse> CollectOther(const LiveState& state, uint32_t slot, const StackTable& names);

// What PyTorch says that it held beyond what the set has: alive, and of no known origin.
void AddNotRecorded(uint64_t stated, LiveSet* set);

// What the program itself holds: torch blocks and other CUDA memory, by stack.
std::vector<StackUse> CollectUse(const LiveState& state, uint32_t slot, const StackTable& names);

// The stacks with more bytes in `after` than in `before`, by the bytes and the count added; most first.
std::vector<StackUse> Growth(const std::vector<StackUse>& before, const std::vector<StackUse>& after);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_LIVE_SET_H_
