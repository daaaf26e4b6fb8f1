// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The moment of a failed request in detail: who filled the device, how free space lay inside the segments, what would
// have fit. Looked at after the first pass has found the requests, so that a program which fails a thousand times does
// not cost a thousand live sets.
//
//   std::vector<Look> looks = LooksAtOoms(names, settings, &analysis.ooms);   // the vector must not move meanwhile
//   Revisit(&reader, checkpoints, std::move(looks));
//   EstimateExpandableFits(&reader, checkpoints, &analysis.ooms);

#ifndef GPUMEM_ANALYZER_REPLAY_OOM_MOMENT_H_
#define GPUMEM_ANALYZER_REPLAY_OOM_MOMENT_H_

#include <map>
#include <vector>

#include "replay/analysis.h"
#include "replay/state/checkpoints.h"
#include "replay/state/revisit.h"
#include "trace/reader.h"
#include "trace/stack_table.h"

namespace gpumem {

// At most so many requests are looked at: the last ones that failed for good, then the last of the others.
inline constexpr size_t kMaxOomMoments = 64;

// What the program wants of PyTorch's allocator.
struct AllocatorSettings {
  std::map<int, uint64_t> limits;    // device -> bytes that it may reserve there (FirstPass::torch_limits)
  bool expandable_segments = false;  // PYTORCH_CUDA_ALLOC_CONF asks for them
};

// The looks keep references to `names` and `settings`.
std::vector<Look> LooksAtOoms(const StackTable& names, const AllocatorSettings& settings, std::vector<OomEvent>* ooms);

// fit_expandable of those of PyTorch's requests that the looks described. One more pass over the trace up to the last
// of them; none where there is no such request.
void EstimateExpandableFits(TraceReader* reader, const Checkpoints& checkpoints, std::vector<OomEvent>* ooms);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_OOM_MOMENT_H_
