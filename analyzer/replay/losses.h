// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What a trace says of its losses, bounded. It counts from the start each time, so that the last packet holds. Pure.

#ifndef GPUMEM_ANALYZER_REPLAY_LOSSES_H_
#define GPUMEM_ANALYZER_REPLAY_LOSSES_H_

#include "gpumem/trace.pb.h"
#include "replay/analysis.h"

namespace gpumem {

// What a Cupti packet says of lost records.
void TakeCuptiLosses(const trace::Cupti& said, LossCounts* losses);

// What the reader of the file counts (missing packets and events, damaged bytes) stays as it is.
void TakeLosses(const trace::Losses& said, LossCounts* losses);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_LOSSES_H_
