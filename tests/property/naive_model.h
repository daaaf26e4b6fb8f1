// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// NaiveModel: the obvious replay, to hold the fast one against. Plain maps, everything recomputed after every event.
// Its schedules are those of correct programs: PyTorch blocks inside their segments, virtual memory by the rules.

#ifndef GPUMEM_TESTS_PROPERTY_NAIVE_MODEL_H_
#define GPUMEM_TESTS_PROPERTY_NAIVE_MODEL_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "replay/analysis.h"

namespace gpumem::testing {

struct NaiveSpan {
  uint64_t size = 0, stack = 0;
  int device = 0;
  bool torch = false;   // of segments
  bool mapped = false;  // of expandable segments: one mapping
};

struct NaiveModel {
  std::map<uint64_t, NaiveSpan> segments;  // CUDA memory by address
  std::map<uint64_t, NaiveSpan> blocks;

  MeasureValues Values(int device) const {
    MeasureValues values;
    for (const auto& [address, block] : blocks) values.allocated += block.device == device ? block.size : 0;
    for (const auto& [address, segment] : segments) {
      if (segment.device != device) continue;
      (segment.torch ? values.reserved : values.other) += segment.size;
      values.total += segment.size;
    }
    return values;
  }

  std::map<uint64_t, uint64_t> BlocksByStack(int device) const {
    std::map<uint64_t, uint64_t> bytes;
    for (const auto& [address, block] : blocks) {
      if (block.device == device) bytes[block.stack] += block.size;
    }
    return bytes;
  }

  std::map<uint64_t, uint64_t> SegmentsByStack(int device, bool torch_only) const {
    std::map<uint64_t, uint64_t> bytes;
    for (const auto& [address, segment] : segments) {
      if (segment.device == device && (segment.torch || !torch_only)) bytes[segment.stack] += segment.size;
    }
    return bytes;
  }

  // Byte counting over every segment, mappings joined where they touch.
  FragmentationPoint Fragmentation(int device) const {
    FragmentationPoint point;
    const MeasureValues values = Values(device);
    point.reserved = values.reserved;
    point.allocated = values.allocated;
    uint64_t gap = 0;
    const auto close = [&] {
      if (gap > 0) ++point.free_ranges;
      point.free += gap;
      point.largest_free_range = std::max(point.largest_free_range, gap);
      gap = 0;
    };
    uint64_t previous_end = 0;
    bool previous_mapped = false;
    for (const auto& [address, segment] : segments) {
      if (segment.device != device || !segment.torch) continue;
      if (!(previous_mapped && segment.mapped && previous_end == address)) close();
      previous_mapped = segment.mapped;
      previous_end = address + segment.size;
      for (uint64_t at = address; at < previous_end; at += kGrain) {
        auto it = blocks.upper_bound(at);
        const bool used = it != blocks.begin() && (--it)->first + it->second.size > at;
        if (used) {
          close();
        } else {
          gap += kGrain;
        }
      }
    }
    close();
    return point;
  }

  static constexpr uint64_t kGrain = 512;
};

}  // namespace gpumem::testing

#endif  // GPUMEM_TESTS_PROPERTY_NAIVE_MODEL_H_
