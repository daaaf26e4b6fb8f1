// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// How PyTorch's caching allocator asks CUDA for memory, as far as it decides what fits. Sizes in bytes. Pure functions.
//
// Source: c10/cuda/CUDACachingAllocator.cpp of PyTorch 2.11 (kSmallSize, kSmallBuffer, kLargeBuffer, kMinLargeAlloc,
// kRoundLarge; get_allocation_size, try_allocate_expandable_block).

#ifndef GPUMEM_ANALYZER_REPLAY_FITS_H_
#define GPUMEM_ANALYZER_REPLAY_FITS_H_

#include <algorithm>
#include <cstdint>

namespace gpumem {

inline constexpr uint64_t kBlockStep = 512;               // blocks are multiples of it
inline constexpr uint64_t kLargestSmallBlock = 1u << 20;  // up to this size a block is of the small pool
inline constexpr uint64_t kSmallPage = 2u << 20;          // small pool: segment, or page of an expandable segment
inline constexpr uint64_t kLargePage = 20u << 20;         // large pool: segment of a block below kLeastExact, or page
inline constexpr uint64_t kLeastExact = 10u << 20;        // from this size on a block has a segment of its size,
inline constexpr uint64_t kSegmentStep = 2u << 20;        // rounded up to this

constexpr uint64_t RoundDown(uint64_t bytes, uint64_t step) { return bytes / step * step; }
constexpr uint64_t RoundUp(uint64_t bytes, uint64_t step) { return RoundDown(bytes + step - 1, step); }

// The largest request that a new segment serves where so much may be asked of CUDA.
constexpr uint64_t LargestInNewSegment(uint64_t may_ask) {
  const uint64_t segment = RoundDown(may_ask, kSegmentStep);
  if (segment >= kLeastExact) return segment;
  return segment >= kSmallPage ? kLargestSmallBlock : 0;
}

// What is asked of CUDA for a request that no free block serves.
constexpr uint64_t SegmentFor(uint64_t requested) {
  if (requested <= kLargestSmallBlock) return kSmallPage;
  return requested < kLeastExact ? kLargePage : RoundUp(requested, kSegmentStep);
}

// The largest request that an expandable segment serves at a place where `hole` bytes without memory lie between
// `before` and `after` free bytes with memory, when `pages` bytes of whole pages may be asked of CUDA.
constexpr uint64_t LargestInHole(uint64_t before, uint64_t hole, uint64_t after, uint64_t pages) {
  return pages >= hole ? before + hole + after : before + pages;
}

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_FITS_H_
