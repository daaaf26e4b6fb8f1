// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The moment of a failed request in detail: who filled the device, how free space lay inside the segments, what would
// have fit. Looked at after the first pass has found the requests, so that a program which fails a thousand times does
// not cost a thousand live sets.
//
//   std::vector<Look> looks = LooksAtOoms(names, &analysis.ooms);   // the vector must not move until the looks are
//   done Revisit(&reader, checkpoints, std::move(looks));

#ifndef GPUMEM_ANALYZER_REPLAY_OOM_MOMENT_H_
#define GPUMEM_ANALYZER_REPLAY_OOM_MOMENT_H_

#include <vector>

#include "replay/analysis.h"
#include "replay/revisit.h"
#include "trace/stack_table.h"

namespace gpumem {

// At most so many requests are looked at: the last ones that failed for good, then the last of the others.
inline constexpr size_t kMaxOomMoments = 64;

std::vector<Look> LooksAtOoms(const StackTable& names, std::vector<OomEvent>* ooms);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_OOM_MOMENT_H_
