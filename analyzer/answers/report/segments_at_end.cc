// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/report/segments_at_end.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/format.h"
#include "trace/allocator_state.h"

namespace gpumem {
namespace {

constexpr uint32_t kSmall = 1, kExpandable = 2;  // of AllocatorState.segment_flags
constexpr size_t kMostMapped = 100000;           // segments whose map is drawn

// The letters of a segment: in each cell what most of it is.
std::string MapOf(const trace::AllocatorState& state, int first, int last, uint64_t size) {
  std::array<std::array<double, 3>, kMapCells> cells{};
  const double width = static_cast<double>(size) / kMapCells;
  uint64_t at = 0;
  for (int block = first; block < last && width > 0; ++block) {
    const double from = static_cast<double>(at) / width;
    at += std::min(state.block_size(block), size - std::min(at, size));
    const double to = static_cast<double>(at) / width;
    const auto kind = static_cast<size_t>(std::clamp<int>(state.block_state(block), 0, 2));
    for (auto cell = static_cast<size_t>(from); cell < kMapCells && static_cast<double>(cell) < to; ++cell) {
      const auto begin = static_cast<double>(cell);
      cells[cell][kind] += std::min(to, begin + 1) - std::max(from, begin);
    }
  }
  std::string map;
  for (const auto& [free, used, pending] : cells)
    map += free >= used && free >= pending ? '.' : used >= pending ? '#' : '~';
  return map;
}

std::string KindOf(uint32_t flags) {
  return absl::StrCat((flags & kExpandable) != 0 ? "expandable " : "", (flags & kSmall) != 0 ? "small" : "large");
}

}  // namespace

std::vector<SegmentAtEnd> SegmentsAtEnd(absl::string_view path) {
  std::vector<SegmentAtEnd> segments;
  const std::optional<trace::AllocatorState> state = ReadAllocatorState(path);
  if (!state) return segments;
  uint64_t address = 0;
  int block = 0;
  for (int i = 0; i < state->segment_size_size(); ++i) {
    SegmentAtEnd& segment = segments.emplace_back();
    PoolAtEnd& sums = segment.sums;
    segment.device = state->segment_device(i);
    segment.address = address += static_cast<uint64_t>(state->segment_address_delta(i));
    sums.stream = state->segment_stream(i);
    sums.pool = state->segment_pool(i);
    sums.kind = KindOf(state->segment_flags(i));
    sums.segments = 1;
    sums.reserved = state->segment_size(i);
    const int first = block, last = block + static_cast<int>(state->segment_blocks(i));
    for (; block < last; ++block) {
      const uint64_t size = state->block_size(block);
      const bool is_free = state->block_state(block) == trace::BLOCK_INACTIVE;
      segment.blocks += is_free ? 0 : 1;
      (is_free                                               ? sums.free
       : state->block_state(block) == trace::BLOCK_ALLOCATED ? sums.allocated
                                                             : sums.pending) += size;
      if (is_free) sums.largest_free_range = std::max(sums.largest_free_range, size);
    }
    if (segments.size() <= kMostMapped) segment.map = MapOf(*state, first, last, sums.reserved);
  }
  return segments;
}

std::vector<PoolAtEnd> PoolsAtEnd(const std::vector<SegmentAtEnd>& segments, int device) {
  std::map<std::tuple<uint64_t, uint64_t, std::string>, PoolAtEnd> pools;
  for (const SegmentAtEnd& segment : segments) {
    if (segment.device != device) continue;
    const PoolAtEnd& one = segment.sums;
    PoolAtEnd& all = pools[{one.stream, one.pool, one.kind}];
    all.stream = one.stream;
    all.pool = one.pool;
    all.kind = one.kind;
    all.segments += one.segments;
    all.reserved += one.reserved;
    all.allocated += one.allocated;
    all.pending += one.pending;
    all.free += one.free;
    all.largest_free_range = std::max(all.largest_free_range, one.largest_free_range);
  }
  std::vector<PoolAtEnd> sorted;
  for (auto& [key, pool] : pools) sorted.push_back(std::move(pool));
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const PoolAtEnd& a, const PoolAtEnd& b) { return a.reserved > b.reserved; });
  return sorted;
}

std::string NameOfPool(uint64_t stream, uint64_t pool) {
  const std::string name = stream == 0 ? "default stream" : absl::StrCat("stream ", stream);
  return pool == 0 ? name : absl::StrCat(name, ", private pool (", pool >> 32, ", ", pool & UINT32_MAX, ")");
}

namespace {

Datum PoolDatum(uint64_t pool) {
  return pool == 0 ? Datum() : Datum::List({Datum(pool >> 32), Datum(pool & UINT32_MAX)});
}

std::vector<AnswerColumn<PoolAtEnd>> PoolColumnsAtEnd() {
  std::vector<AnswerColumn<PoolAtEnd>> columns = {
      {"stream", "PyTorch's id of the stream; 0 = the default one", [](const PoolAtEnd& pool) { return pool.stream; }},
      {"pool", "the two numbers of a private pool's id; null = the common one",
       [](const PoolAtEnd& pool) { return PoolDatum(pool.pool); }},
      {"reserved_bytes", "reserved", Unit::kBytes, "", [](const PoolAtEnd& pool) { return pool.reserved; }},
      {"allocated_bytes", "in use", Unit::kBytes, "", [](const PoolAtEnd& pool) { return pool.allocated; }},
      {"pending_bytes", "pending", Unit::kBytes, "freed, and in use by another stream until later",
       [](const PoolAtEnd& pool) { return pool.pending; }},
      {"free_bytes", "free", Unit::kBytes, "", [](const PoolAtEnd& pool) { return pool.free; }},
      {"largest_free_range_bytes", "largest", Unit::kBytes, "inside one segment",
       [](const PoolAtEnd& pool) { return pool.largest_free_range; }},
      {"segments", "segments", Unit::kCount, "", [](const PoolAtEnd& pool) { return pool.segments; }},
      {"kind", kNoTitle, Unit::kText, "of the blocks: `small` or `large`; `expandable` before it",
       [](const PoolAtEnd& pool) { return pool.kind; }},
      {"", kNoTitle, Unit::kText, "", [](const PoolAtEnd& pool) { return NameOfPool(pool.stream, pool.pool); }},
  };
  columns[4].telling = [](const PoolAtEnd& pool) { return pool.pending != 0; };
  return columns;
}

std::vector<AnswerColumn<SegmentAtEnd>> SegmentColumns() {
  return {
      {"address", kNoTitle, Unit::kText, "", [](const SegmentAtEnd& s) { return absl::StrFormat("0x%x", s.address); }},
      {"reserved_bytes", "reserved", Unit::kBytes, "", [](const SegmentAtEnd& s) { return s.sums.reserved; }},
      {"allocated_bytes", "in use", Unit::kBytes, "", [](const SegmentAtEnd& s) { return s.sums.allocated; }},
      {"pending_bytes", "freed, and in use by another stream until later",
       [](const SegmentAtEnd& s) { return s.sums.pending; }},
      {"free_bytes", "", [](const SegmentAtEnd& s) { return s.sums.free; }},
      {"largest_free_range_bytes", "", [](const SegmentAtEnd& s) { return s.sums.largest_free_range; }},
      {"blocks", "in use, or pending", [](const SegmentAtEnd& s) { return s.blocks; }},
      {"kind", "as in `pools_at_end`", [](const SegmentAtEnd& s) { return s.sums.kind; }},
      {"stream", "", [](const SegmentAtEnd& s) { return s.sums.stream; }},
      {"pool", "", [](const SegmentAtEnd& s) { return PoolDatum(s.sums.pool); }},
      {"map", kNoTitle, Unit::kText, "from its beginning to its end: `#` in use, `~` pending, `.` free",
       [](const SegmentAtEnd& s) { return s.map; }},
      {"", kNoTitle, Unit::kText, "", [](const SegmentAtEnd& s) { return NameOfPool(s.sums.stream, s.sums.pool); }},
  };
}

// Of a device, the largest first.
std::vector<SegmentAtEnd> LargestOf(const std::vector<SegmentAtEnd>& segments, int device) {
  std::vector<SegmentAtEnd> own;
  for (const SegmentAtEnd& segment : segments) {
    if (segment.device == device) own.push_back(segment);
  }
  std::stable_sort(own.begin(), own.end(),
                   [](const SegmentAtEnd& a, const SegmentAtEnd& b) { return a.sums.reserved > b.sums.reserved; });
  return own;
}

}  // namespace

void AddFieldsAtEnd(const std::vector<SegmentAtEnd>& segments, int device, size_t top, Document* fields) {
  std::vector<PoolAtEnd> pools = PoolsAtEnd(segments, device);
  const size_t pool_count = Shown(pools.size(), top);
  fields->Table<PoolAtEnd>(
      "pools_at_end",
      "what each stream and pool had at the end, as PyTorch's snapshot says; empty where the trace "
      "was not imported from one",
      PoolColumnsAtEnd(), std::move(pools), {.count = pool_count, .layout = JsonLayout::kOneLine, .is_shown = false});
  std::vector<SegmentAtEnd> own = LargestOf(segments, device);
  const size_t count = Shown(own.size(), top);
  fields->Table<SegmentAtEnd>("segments_at_end", "the segments at the end, largest first; likewise", SegmentColumns(),
                              std::move(own), {.count = count, .layout = JsonLayout::kOneLine, .is_shown = false});
}

void AddSegmentsAtEnd(const std::vector<SegmentAtEnd>& segments, int device, size_t top, Document* answer) {
  std::vector<SegmentAtEnd> own = LargestOf(segments, device);
  if (own.empty()) return;
  std::vector<PoolAtEnd> pools = PoolsAtEnd(segments, device);
  const size_t pool_count = Shown(pools.size(), top), segment_count = Shown(own.size(), top);
  answer->Line("  By stream and pool, at the end:");
  answer->Table<PoolAtEnd>("", "", PoolColumnsAtEnd(), std::move(pools), {.count = pool_count, .counts_rest = true});
  answer->Line("  Segments at the end, largest first  # in use  ~ freed, but in use by another stream  . free");
  answer->Table<SegmentAtEnd>("", "", SegmentColumns(), std::move(own), {.count = segment_count, .counts_rest = true});
}

}  // namespace gpumem
