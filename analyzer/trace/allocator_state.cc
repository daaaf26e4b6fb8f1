// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "trace/allocator_state.h"

#include <algorithm>
#include <string>

#include "absl/status/statusor.h"
#include "trace/packet_reader.h"

namespace gpumem {
namespace {

bool IsWhole(const trace::AllocatorState& state) {
  const int segments = state.segment_size_size(), blocks = state.block_size_size();
  const int of_segments[] = {state.segment_device_size(), state.segment_address_delta_size(),
                             state.segment_stream_size(), state.segment_pool_size(),
                             state.segment_stack_size(),  state.segment_flags_size(),
                             state.segment_blocks_size()};
  const int of_blocks[] = {state.block_requested_size(), state.block_state_size(), state.block_stack_size()};
  const auto is = [](int count) { return [count](int other) { return other == count; }; };
  uint64_t listed = 0;
  for (const uint32_t count : state.segment_blocks()) listed += count;
  return std::all_of(std::begin(of_segments), std::end(of_segments), is(segments)) &&
         std::all_of(std::begin(of_blocks), std::end(of_blocks), is(blocks)) && listed == static_cast<uint64_t>(blocks);
}

}  // namespace

std::optional<trace::AllocatorState> ReadAllocatorState(absl::string_view path) {
  absl::StatusOr<PacketReader> reader = PacketReader::Open(path);
  if (!reader.ok()) return std::nullopt;
  trace::AllocatorState all;
  std::string rest;
  uint64_t bytes = 0;
  bool found = false, began = false;
  RawPacket packet;
  while (reader->Next(&packet) == PacketReader::Outcome::kPacket) {
    const bool is_header = packet.type == PacketType::kHeader;
    if (packet.type == PacketType::kEvents || packet.type == PacketType::kEnd || (is_header && began)) break;
    began |= is_header;
    if (packet.type != PacketType::kAllocatorState) continue;
    trace::AllocatorState part;
    if ((bytes += packet.body.size()) > kMostStateBytes || packet.missing != 0 ||
        !part.ParseFromArray(packet.body.data(), static_cast<int>(packet.body.size())))
      return std::nullopt;
    found = true;
    rest += part.rest();
    part.clear_rest();
    all.MergeFrom(part);
  }
  if (!found || !IsWhole(all)) return std::nullopt;
  all.set_rest(std::move(rest));
  return all;
}

}  // namespace gpumem
