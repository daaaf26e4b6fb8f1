// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "query/end_pools.h"

#include <iterator>
#include <optional>

#include "absl/strings/str_cat.h"
#include "trace/allocator_state.h"

namespace gpumem {

EndPools::EndPools(absl::string_view path) {
  const std::optional<trace::AllocatorState> state = ReadAllocatorState(path);
  if (!state) return;
  uint64_t address = 0;
  int block = 0;
  for (int i = 0; i < state->segment_size_size(); ++i) {
    address += static_cast<uint64_t>(state->segment_address_delta(i));
    const int device = state->segment_device(i);
    segments_[{device, address}] = {state->segment_size(i), state->segment_stream(i), state->segment_pool(i),
                                    (state->segment_flags(i) & 1) != 0};
    uint64_t at = address;
    for (const int end = block + static_cast<int>(state->segment_blocks(i)); block < end; ++block) {
      if (state->block_state(block) == trace::BLOCK_PENDING_FREE)
        pending_[{device, at}] = {state->block_size(block), state->block_requested(block), state->block_stack(block)};
      at += state->block_size(block);
    }
  }
}

const EndPools::Segment* EndPools::At(int device, uint64_t address) const {
  const auto next = segments_.upper_bound({device, address});
  if (next == segments_.begin()) return nullptr;
  const auto& [place, segment] = *std::prev(next);
  return place.first == device && address - place.second < segment.size ? &segment : nullptr;
}

std::string EndPools::NameOf(uint64_t pool) { return absl::StrCat("(", pool >> 32, ", ", pool & UINT32_MAX, ")"); }

}  // namespace gpumem
