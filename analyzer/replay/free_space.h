// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Free space inside PyTorch's segments: what is said of it and of the blocks between, as plain data (fragmentation.h
// makes it from a LiveState), and how the allocator asks CUDA for more.

#ifndef GPUMEM_ANALYZER_REPLAY_FREE_SPACE_H_
#define GPUMEM_ANALYZER_REPLAY_FREE_SPACE_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace gpumem {

// How free space lies inside a device's PyTorch segments, or of the part of them in one pool.
struct FragmentationPoint {
  uint64_t time_ns = 0;
  uint64_t reserved = 0;
  uint64_t allocated = 0;
  uint64_t pending = 0;             // freed, and in use by another stream until later; where that is known
  uint64_t free = 0;                // reserved - allocated - pending
  uint64_t largest_free_range = 0;  // inside one segment
  uint64_t free_ranges = 0;
  uint64_t rounding = 0;  // allocated - requested, over the blocks whose request is known
  bool requested_known = false;
  double external_ratio = 0;  // 1 - largest_free_range / free; 0 where nothing is free
  uint64_t empty_cache = 0;   // what torch.cuda.empty_cache() would return: segments, or mapped pages, without a block
};

// What the free space inside PyTorch's segments is.
enum class FreeSpace : uint8_t {
  kLittle,     // less than a twentieth of what is reserved
  kCached,     // most of it lies in one piece, for the next request
  kScattered,  // in pieces, none of which has half of it
};
FreeSpace FreeSpaceOf(const FragmentationPoint& point);

// A live block that keeps a segment from going back to CUDA.
struct PinningBlock {
  uint64_t segment_address = 0;
  uint64_t segment_bytes = 0;
  uint64_t segment_free = 0;  // bytes of it that no block uses
  uint64_t block_address = 0;
  uint64_t block_bytes = 0;
  uint64_t blocks_in_segment = 0;  // 1: freeing this block alone would return the whole segment
  uint64_t returnable = 0;         // bytes that CUDA would get back if this block (the segment's only one) went
  uint64_t stack_id = 0;
  uint64_t allocated_ns = 0;
};

// Live blocks of one stack, or of a few together, that keep segments (of an expandable segment: mapped pages) from
// going back to CUDA. No two groups of one list have the same stacks.
struct PinGroup {
  std::vector<uint64_t> stack_ids;  // in rising order; at least one
  uint64_t blocks = 0, block_bytes = 0;
  uint64_t segments = 0, returnable = 0;  // how many they keep, and with how many bytes in all
  uint64_t oldest_ns = 0;                 // when the first of the blocks was allocated
  bool pages = false;                     // of expandable segments, not whole segments
};

struct PoolFragmentation {
  std::string pool;            // "small" or "large": inferred from the segment's size; "expandable"
  FragmentationPoint at_peak;  // at the peak of reserved
  FragmentationPoint at_end;
};

// The segments of one stream and one private pool: what is free in them serves no other stream and no other pool.
struct CachePart {
  uint64_t stream = 0;  // PyTorch's id; 0 = the default one, or not known
  uint64_t pool = 0;    // the first capture of a CUDA graph that had a block of it; 0 = the common pool
  uint64_t segments = 0, reserved = 0, free = 0;
  uint64_t pending = 0;  // freed, and in use by another stream until later
  uint64_t empty = 0;    // of `free`: in segments, or mapped pages, without a block
};

// Side streams that were used one after another, each for a while: what a program does that takes a new one each time.
struct StreamChain {
  uint64_t stack_id = 0;          // where they were taken; where that was not recorded: of their first block
  bool is_taken = false;          // the first
  uint64_t takes = 0;             // how often one was taken there; 0 = not recorded
  std::vector<uint64_t> streams;  // PyTorch's ids, each once, in the order of use; at least kLeastStreams
};
inline constexpr size_t kLeastStreams = 3;

// Blocks of one stack, each of which needed a segment larger than any before of that stack: what was freed is too small
// for the next.
struct SizeRatchet {
  uint64_t stack_id = 0;
  uint64_t segments = 0, bytes = 0;  // that were made so, of the whole run; at least kLeastRises
  uint64_t first = 0, last = 0;      // sizes of the first and the last of them
};
inline constexpr size_t kLeastRises = 8;

// What keeps free memory from being used again, and is not seen in blocks; of the whole process.
struct AllocatorUses {
  uint64_t record_streams = 0;  // calls of Tensor.record_stream
  uint64_t mem_pools = 0;       // MemPools that were made
};

struct Fragmentation {
  FragmentationPoint at_peak;  // at the peak of reserved
  FragmentationPoint at_end;
  std::vector<FragmentationPoint> over_time;
  std::vector<PoolFragmentation> pools;
  std::vector<PinningBlock> pins_at_peak;  // largest returnable first
  std::vector<PinningBlock> pins_at_end;
  std::vector<PinGroup> groups_at_peak;  // all of them, largest returnable first
  std::vector<PinGroup> groups_at_end;
  std::vector<CachePart> caches_at_peak;  // most free first
  std::vector<StreamChain> chains;        // of the whole run; most streams first
  std::vector<SizeRatchet> ratchets;      // of the whole run; most bytes first
  AllocatorUses uses;
};

// At the peak or the end.
bool UsesExpandableSegments(const Fragmentation& fragmentation);

// How PyTorch's caching allocator asks CUDA for memory, as far as it decides what fits. Sizes in bytes. Pure functions.
//
// Source: c10/cuda/CUDACachingAllocator.cpp of PyTorch 2.11 (kSmallSize, kSmallBuffer, kLargeBuffer, kMinLargeAlloc,
// kRoundLarge; get_allocation_size, try_allocate_expandable_block).

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

#endif  // GPUMEM_ANALYZER_REPLAY_FREE_SPACE_H_
