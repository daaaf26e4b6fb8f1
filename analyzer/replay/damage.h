// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What an Analysis says of a damaged file: what is wrong, what is missing, and from when on numbers are unsure.

#ifndef GPUMEM_ANALYZER_REPLAY_DAMAGE_H_
#define GPUMEM_ANALYZER_REPLAY_DAMAGE_H_

#include "replay/analysis.h"
#include "replay/first_pass.h"
#include "trace/reader.h"

namespace gpumem {

// After the first pass, before anything is read again.
void TakeDamage(const TraceReader& reader, const FirstPass& pass, Analysis* analysis);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_DAMAGE_H_
