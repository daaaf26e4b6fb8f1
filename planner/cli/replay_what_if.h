// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ReplayWhatIf: a WhatIfAsker (cli/look/what_if.h) that replays the recorded requests in an installed PyTorch's own
// allocator: with the recorded settings, and with expandable segments, or without them where they were on; both at
// once, each for at most a minute.
//
//   SetWhatIfAsker(ReplayWhatIf);
//
// Not thread-safe. Failure: an answer that says why. Where a signal would have ended the program meanwhile, it ends
// here, once no file is left.

#ifndef GPUMEM_PLANNER_CLI_REPLAY_WHAT_IF_H_
#define GPUMEM_PLANNER_CLI_REPLAY_WHAT_IF_H_

#include "base/console.h"
#include "cli/look/what_if.h"

namespace gpumem::plan {

WhatIfAnswer ReplayWhatIf(const WhatIfQuestion& question, Console* console);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_CLI_REPLAY_WHAT_IF_H_
