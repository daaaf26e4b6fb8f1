// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/stream_log.h"

#include <algorithm>
#include <utility>

namespace gpumem {
namespace {

// trace.proto, ALLOCATOR_USE.
constexpr uint64_t kStreamWasTaken = 1, kRecordStream = 2, kMemPool = 3;

}  // namespace

void StreamLog::TakeUse(const EventBatch& batch, size_t i) {
  if (batch.handle(i) == kStreamWasTaken) TakeStream(SlotOfDevice(batch.device(i)), batch.stream(i), batch.stack(i));
  if (batch.handle(i) == kRecordStream) ++uses_.record_streams;
  if (batch.handle(i) == kMemPool) ++uses_.mem_pools;
}

void StreamLog::TakeStream(uint32_t slot, uint64_t stream, uint64_t stack) {
  last_stream_ = 0;
  Device& device = devices_[slot];
  if (device.places.size() >= kMost || device.streams.size() >= kMost || stack == 0) return;
  Place& place = device.places[stack];
  ++place.takes;
  place.last = stream;
  device.streams[stream].taken_at = stack;
}

void StreamLog::Begin(uint32_t slot, uint64_t stream, uint64_t stack) {
  if (stream == 0) return;
  last_stream_ = stream;
  last_slot_ = slot;
  Device& device = devices_[slot];
  if (device.streams.size() >= kMost && !device.streams.contains(stream)) return;
  const size_t order = device.streams.size();
  Stream& used = device.streams[stream];
  if (used.runs++ == 0) {
    used.order = order;
    used.first_stack = stack;
  }
  const auto place = device.places.find(used.taken_at);
  if (place == device.places.end()) return;
  place->second.is_mixed |= place->second.last != stream;
  std::vector<uint64_t>& all = place->second.streams;
  if (std::find(all.begin(), all.end(), stream) == all.end()) all.push_back(stream);
}

// The block's segment says which capture had the first block in it.
void StreamLog::Join(uint64_t capture, const LiveState& state, uint64_t address) {
  const uint32_t place = state.FindBlock(address);
  if (place == AddressIndex::kNone) return;
  const SegmentOwner& owner = state.cuda().OwnerOf(state.blocks()[place].segment);
  if (!owner.is_known || owner.pool == 0 || owner.pool == capture || joined_.size() >= kMost) return;
  const uint64_t a = PoolOf(capture), b = PoolOf(owner.pool), pool = std::min(a, b);
  // Each straight to the first one, so that no chain grows long.
  for (const uint64_t each : {capture, owner.pool, a, b}) {
    if (each != pool) joined_[each] = pool;
  }
}

uint64_t StreamLog::PoolOf(uint64_t capture) const {
  for (auto at = joined_.find(capture); at != joined_.end(); at = joined_.find(capture)) capture = at->second;
  return capture;
}

std::vector<CachePart> StreamLog::ByPool(const std::vector<CachePart>& parts) const {
  std::map<std::pair<uint64_t, uint64_t>, CachePart> sums;
  for (const CachePart& part : parts) {
    const uint64_t pool = PoolOf(part.pool);
    CachePart& sum = sums[{part.stream, pool}];
    sum.stream = part.stream;
    sum.pool = pool;
    sum.segments += part.segments;
    sum.reserved += part.reserved;
    sum.free += part.free;
    sum.empty += part.empty;
  }
  std::vector<CachePart> sorted;
  for (const auto& [key, sum] : sums) sorted.push_back(sum);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const CachePart& a, const CachePart& b) { return a.free > b.free; });
  return sorted;
}

std::vector<StreamChain> StreamLog::Chains(uint32_t slot) const {
  std::vector<StreamChain> chains;
  const auto found = devices_.find(slot);
  if (found == devices_.end()) return chains;
  for (const auto& [stack, place] : found->second.places) {
    if (!place.is_mixed && place.streams.size() >= kLeastStreams)
      chains.push_back({stack, true, place.takes, place.streams});
  }
  std::map<uint64_t, std::vector<std::pair<size_t, uint64_t>>> by_first_block;
  for (const auto& [id, stream] : found->second.streams) {
    if (stream.taken_at == 0 && stream.runs == 1) by_first_block[stream.first_stack].emplace_back(stream.order, id);
  }
  for (auto& [stack, streams] : by_first_block) {
    if (streams.size() < kLeastStreams) continue;
    std::sort(streams.begin(), streams.end());
    StreamChain& chain = chains.emplace_back();
    chain.stack_id = stack;
    for (const auto& [order, id] : streams) chain.streams.push_back(id);
  }
  std::stable_sort(chains.begin(), chains.end(),
                   [](const StreamChain& a, const StreamChain& b) { return a.streams.size() > b.streams.size(); });
  return chains;
}

}  // namespace gpumem
