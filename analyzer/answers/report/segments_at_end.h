// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// SegmentsAtEnd: what PyTorch's allocator itself said of each segment when its snapshot was taken, and the same added
// up by stream and pool. Only imports of snapshots have it (trace.proto, AllocatorState). Plain values; pure functions.
//
//   const std::vector<SegmentAtEnd> segments = SegmentsAtEnd("run.gmtrace");
//   for (const PoolAtEnd& pool : PoolsAtEnd(segments, device)) Print(pool.pending);

#ifndef GPUMEM_ANALYZER_ANSWERS_REPORT_SEGMENTS_AT_END_H_
#define GPUMEM_ANALYZER_ANSWERS_REPORT_SEGMENTS_AT_END_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "render/document.h"

namespace gpumem {

struct PoolAtEnd {
  uint64_t stream = 0, pool = 0;  // PyTorch's id of the stream; 2^32 * first + second number of the pool's id
  std::string kind;               // "small", "large", "expandable small", "expandable large"
  uint64_t segments = 0, reserved = 0;
  uint64_t allocated = 0;  // in use
  uint64_t pending = 0;    // freed, and in use by another stream until later
  uint64_t free = 0, largest_free_range = 0;
};

struct SegmentAtEnd {
  int device = 0;
  uint64_t address = 0, blocks = 0;  // blocks in use, or pending
  PoolAtEnd sums;                    // of this segment alone
  std::string map;                   // kMapCells letters: '#' in use, '~' pending, '.' free
};

inline constexpr size_t kMapCells = 40;

// In the order of the snapshot. Empty where the trace has no such state.
std::vector<SegmentAtEnd> SegmentsAtEnd(absl::string_view path);
// Most reserved first.
std::vector<PoolAtEnd> PoolsAtEnd(const std::vector<SegmentAtEnd>& segments, int device);

// "stream 7, private pool (0, 3)".
std::string NameOfPool(uint64_t stream, uint64_t pool);

// Both as tables of a device: "pools_at_end" and "segments_at_end".
void AddFieldsAtEnd(const std::vector<SegmentAtEnd>& segments, int device, size_t top, Document* fields);
void AddSegmentsAtEnd(const std::vector<SegmentAtEnd>& segments, int device, size_t top, Document* answer);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_REPORT_SEGMENTS_AT_END_H_
