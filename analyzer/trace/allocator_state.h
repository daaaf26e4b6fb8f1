// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ReadAllocatorState: what PyTorch's allocator itself said of its segments and blocks, which imports of its snapshots
// have in front of their events (trace.proto, AllocatorState). It reads no further than that. Nothing where the trace
// has none, or where it cannot be read whole. Thread-safe; bounded by kMostStateBytes.
//
//   if (const auto state = ReadAllocatorState("run.gmtrace")) Draw(state->segment_size());

#ifndef GPUMEM_ANALYZER_TRACE_ALLOCATOR_STATE_H_
#define GPUMEM_ANALYZER_TRACE_ALLOCATOR_STATE_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "gpumem/trace.pb.h"

namespace gpumem {

inline constexpr uint64_t kMostStateBytes = uint64_t{512} << 20;

// The parts of the first process in the file, joined: of each segment and each block there is an element in each of its
// columns, and the blocks of all segments are as many as there are blocks.
std::optional<trace::AllocatorState> ReadAllocatorState(absl::string_view path);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_TRACE_ALLOCATOR_STATE_H_
