// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Revisit: looks at the exact live state after chosen events, once the first pass has found out which. Goes from
// checkpoint to checkpoint, so the cost depends on the number of looks, not on the length of the file; where a `follow`
// is given, through all events up to the last look.
//
//   Revisit(&reader, checkpoints, {{peak.event_index, [&](const LiveState& state) { ... }}});

#ifndef GPUMEM_ANALYZER_REPLAY_STATE_REVISIT_H_
#define GPUMEM_ANALYZER_REPLAY_STATE_REVISIT_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "replay/state/checkpoints.h"
#include "replay/state/live_state.h"
#include "trace/reader.h"

namespace gpumem {

struct Look {
  uint64_t event_index = 0;  // the state is the one after this event
  std::function<void(const LiveState&)> see;
};

// Is called with the state before the first event, and whenever the state was taken anew: to observe it.
using Follow = std::function<void(LiveState*)>;

// In the order of events. Looks beyond what can be read are left out. The reader stands anywhere afterwards.
void Revisit(TraceReader* reader, const Checkpoints& checkpoints, std::vector<Look> looks,
             const Follow& follow = nullptr);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_STATE_REVISIT_H_
