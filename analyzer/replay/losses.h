// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What an Analysis says of what is missing: losses that the trace states, and damage to its file.

#ifndef GPUMEM_ANALYZER_REPLAY_LOSSES_H_
#define GPUMEM_ANALYZER_REPLAY_LOSSES_H_

#include "gpumem/trace.pb.h"
#include "replay/analysis.h"
#include "replay/first_pass.h"
#include "trace/reader.h"

namespace gpumem {

// What a Cupti packet says of lost records.
void TakeCuptiLosses(const trace::Cupti& said, LossCounts* losses);

// What the reader of the file counts (missing packets and events, damaged bytes) stays as it is.
void TakeLosses(const trace::Losses& said, LossCounts* losses);

// What is wrong with a damaged file, what is missing, and from when on numbers are unsure. After the first pass, before
// anything is read again.
void TakeDamage(const TraceReader& reader, const FirstPass& pass, Analysis* analysis);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_LOSSES_H_
