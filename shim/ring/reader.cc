// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/ring/reader.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "shim/base/clock.h"
#include "shim/ring/state.h"

namespace gpumemshim::ring {
namespace {

// Room for clocks of two cores that disagree, and, without membarrier, for a store to become visible.
constexpr uint64_t kMarginNs = 20'000;
constexpr uint64_t kMarginWithoutBarrierNs = 1'000'000;
constexpr uint64_t kStalledNs = 2'000'000'000;
constexpr uint32_t kStalledPasses = 20;  // a stopped process lets time pass, but no passes
constexpr uint64_t kReapIntervalNs = 500'000'000;
constexpr uint64_t kReapIntervalWhenShortNs = 10'000'000;
constexpr uint64_t kReapRest = 20;  // it asks the kernel about each thread: a twentieth of the time at most
constexpr uint32_t kIdlePasses = 4;

bool ThreadGone(uint32_t tid) {
  return syscall(SYS_tgkill, static_cast<int>(g_state.pid), static_cast<int>(tid), 0) != 0 && errno == ESRCH;
}

}  // namespace

bool Reader::Attach() {
  if (!tracks_.Reserve(g_state.chunk_count) || !order_.Reserve(g_state.chunk_count) ||
      !heap_.Reserve(g_state.chunk_count) || !first_times_.Reserve(g_state.chunk_count) || !lanes_.Reserve(kMaxLanes)) {
    return false;
  }
  data_ = g_state.data;
  // Of an earlier ring; fresh memory is zero, and most of it is never used.
  memset(static_cast<void*>(tracks_.data()), 0, tracks_.size() * sizeof(Track));
  memset(static_cast<void*>(lanes_.data()), 0, lanes_.size() * sizeof(LaneTrack));
  tracks_.Resize(g_state.chunk_count);
  lanes_.Resize(kMaxLanes);
  return true;
}

void Reader::BeginPass(bool everything) {
  uint64_t now_ns = MonotonicNs();
  g_hot.load(std::memory_order_relaxed)->reader_time_ns.store(now_ns, std::memory_order_relaxed);
  barrier_ = HeavyBarrier();
  uint64_t margin_ns = barrier_ ? kMarginNs : kMarginWithoutBarrierNs;
  uint64_t lowest_ns = std::min(now_ns - margin_ns, LowestInFlight(now_ns));
  watermark_ns_ = everything ? UINT64_MAX : lowest_ns;
  ReapInTime(now_ns);
  order_.Clear();
  Gather(Limit::kEvents);
  Sort();
  ExtendClosed();
  Gather(Limit::kStacks);  // a stack is defined before an event uses it, so look after the events
  Gather(Limit::kCodes);   // and a code object before a stack does
  Gather(Limit::kTexts);
  Sort();
  has_more_ = false;
  if (!everything) Bound();
  BuildHeap();
  Revoke();
  code_cursor_ = stack_cursor_ = text_cursor_ = 0;
}

uint64_t Reader::LowestInFlight(uint64_t now_ns) {
  Pool* pool = g_state.pool;
  uint64_t lowest_ns = UINT64_MAX;
  uint32_t limit = pool->lane_limit.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < limit; i++) {
    // A record takes some 50 ns, so a short second look spares a whole pass.
    uint64_t bound_ns = pool->lanes[i].in_flight.load(std::memory_order_acquire);
    for (int spin = 0; bound_ns != 0 && spin < 200; spin++)
      bound_ns = pool->lanes[i].in_flight.load(std::memory_order_acquire);
    LaneTrack& track = lanes_[i];
    if (bound_ns == 0 || bound_ns != track.in_flight) {
      track = {bound_ns, now_ns, 0, false, false};
    } else if (++track.passes >= kStalledPasses && now_ns - track.since_ns >= kStalledNs) {
      if (!track.counted) Atomic(g_state.header->stalled_threads).fetch_add(1, std::memory_order_relaxed);
      track.counted = true;
      continue;
    }
    if (bound_ns != 0) lowest_ns = std::min(lowest_ns, bound_ns);
  }
  return lowest_ns;
}

bool Reader::NeedsRoom() const { return IsShort(*g_state.pool); }

// Perhaps of threads that are gone.
bool Reader::HasManyLanes() const {
  int taken = 0;
  for (const auto& word : g_state.pool->taken_lanes)
    taken += __builtin_popcountll(word.load(std::memory_order_relaxed));
  return taken > static_cast<int>(kManyLanes);
}

// Each thread that ends leaves a chunk, too, so that of many short threads the ring is full of chunks with an event
// each.
void Reader::ReapInTime(uint64_t now_ns) {
  const bool is_short = HasManyLanes() || NeedsRoom();
  const uint64_t interval_ns =
      is_short ? std::max(kReapIntervalWhenShortNs, kReapRest * reap_cost_ns_) : kReapIntervalNs;
  if (now_ns - reaped_ns_ <= std::min(interval_ns, kReapIntervalNs)) return;
  ReapLanes();
  reaped_ns_ = now_ns;
  reap_cost_ns_ = MonotonicNs() - now_ns;
}

void Reader::ReapLanes() {
  Pool* pool = g_state.pool;
  const uint32_t limit = pool->lane_limit.load(std::memory_order_acquire);
  bool any = false;
  for (uint32_t i = 0; i < limit; i++) {
    const Lane& lane = pool->lanes[i];
    const uint32_t tid = lane.tid.load(std::memory_order_acquire);
    lanes_[i].gone = tid != 0 && (lane.abandoned.load(std::memory_order_relaxed) != 0 || ThreadGone(tid));
    any |= lanes_[i].gone;
  }
  for (uint32_t c = 0; any && c < g_state.chunk_count; c++) {
    ChunkDescriptor& chunk = g_state.chunks[c];
    if (Atomic(chunk.state).load(std::memory_order_acquire) != kChunkOpen) continue;
    if (chunk.owner_lane >= limit || !lanes_[chunk.owner_lane].gone) continue;
    Atomic(chunk.state).store(kChunkClosed, std::memory_order_release);
  }
  for (uint32_t i = 0; any && i < limit; i++) {
    if (!lanes_[i].gone) continue;
    lanes_[i].gone = false;
    pool->lanes[i].taking.store(0, std::memory_order_relaxed);
    pool->lanes[i].in_flight.store(0, std::memory_order_relaxed);
    pool->lanes[i].tid.store(0, std::memory_order_relaxed);
    pool->taken_lanes[i / 64].fetch_and(~(uint64_t{1} << i % 64), std::memory_order_release);
  }
  if (any) pool->lanes_short.store(0, std::memory_order_relaxed);
}

void Reader::Gather(Limit limit) {
  uint32_t in_use = 0;
  for (uint32_t word = 0; word * 64 < g_state.chunk_count; word++) {
    uint64_t taken = ~g_state.pool->free_bits[word].load(std::memory_order_acquire);
    for (; taken != 0; taken &= taken - 1) {
      uint32_t i = word * 64 + static_cast<uint32_t>(__builtin_ctzll(taken));
      if (i >= g_state.chunk_count) break;
      ChunkDescriptor& chunk = g_state.chunks[i];
      if (Atomic(chunk.state).load(std::memory_order_acquire) == kChunkFree) continue;  // not present, or about to be
      in_use++;
      Track& track = tracks_[i];
      if (track.number == 0) {
        track = {};
        track.number = chunk.number;
        track.serial = chunk.owner_serial;
      }
      uint32_t committed = Atomic(chunk.committed).load(std::memory_order_acquire);
      if (limit == Limit::kEvents) track.event_limit = committed;
      if (limit == Limit::kStacks) track.stack_limit = committed;
      if (limit == Limit::kCodes) track.code_limit = committed;
      if (limit == Limit::kTexts) track.text_limit = committed;
    }
  }
  if (in_use > g_state.pool->high_chunks.load(std::memory_order_relaxed)) {
    g_state.pool->high_chunks.store(in_use, std::memory_order_relaxed);
  }
}

void Reader::Sort() {
  order_.Clear();
  for (uint32_t i = 0; i < g_state.chunk_count; i++) {
    if (tracks_[i].number != 0) order_.Push(i);
  }
  const Track* tracks = tracks_.data();
  std::sort(order_.data(), order_.data() + order_.size(), [tracks](uint32_t a, uint32_t b) {
    return tracks[a].serial != tracks[b].serial ? tracks[a].serial < tracks[b].serial
                                                : tracks[a].number < tracks[b].number;
  });
}

// A chunk whose thread was seen in a later one is finished, but it may have grown after we looked at it. Without its
// last records the later chunk's would overtake them.
void Reader::ExtendClosed() {
  for (size_t i = 0; i + 1 < order_.size(); i++) {
    Track& track = tracks_[order_[i]];
    if (tracks_[order_[i + 1]].serial != track.serial) continue;
    track.event_limit = Atomic(g_state.chunks[order_[i]].committed).load(std::memory_order_acquire);
  }
}

// Next record of `type` before `limit`. Chunks mostly hold no definitions, and a count says so without a walk.
const RecordHeader* Reader::NextDefinition(uint16_t type, uint32_t* position, uint32_t limit, uint32_t* walked,
                                           uint32_t index) {
  uint32_t definitions = Atomic(g_state.chunks[index].definitions).load(std::memory_order_relaxed);
  while (*position < limit) {
    if (*walked >= definitions) {
      *position = limit;
      break;
    }
    const RecordHeader* record = RecordAt(index, *position);
    *position += record->size;
    if (record->type != kRecordEvent) ++*walked;
    if (record->type == type) return record;
  }
  return nullptr;
}

bool Reader::NextStack(StackView* stack) {
  for (; stack_cursor_ < order_.size(); stack_cursor_++) {
    uint32_t index = order_[stack_cursor_];
    Track& track = tracks_[index];
    const RecordHeader* found =
        NextDefinition(kRecordStack, &track.stack_position, track.stack_limit, &track.stack_definitions, index);
    if (found == nullptr) continue;
    auto* record = reinterpret_cast<const StackRecord*>(found);
    *stack = {record->hash, reinterpret_cast<const RawFrame*>(record + 1), record->count};
    return true;
  }
  return false;
}

bool Reader::NextText(TextView* text) {
  for (; text_cursor_ < order_.size(); text_cursor_++) {
    uint32_t index = order_[text_cursor_];
    Track& track = tracks_[index];
    const RecordHeader* found =
        NextDefinition(kRecordText, &track.text_position, track.text_limit, &track.text_definitions, index);
    if (found == nullptr) continue;
    auto* record = reinterpret_cast<const TextRecord*>(found);
    *text = {record->key, reinterpret_cast<const char*>(record + 1), record->bytes, record->field};
    return true;
  }
  return false;
}

bool Reader::NextCode(RawCode* code) {
  for (; code_cursor_ < order_.size(); code_cursor_++) {
    uint32_t index = order_[code_cursor_];
    Track& track = tracks_[index];
    while (const RecordHeader* found =
               NextDefinition(kRecordCode, &track.code_position, track.code_limit, &track.code_definitions, index)) {
      if (TakeCode(track.serial, reinterpret_cast<const CodeRecord*>(found), code)) return true;
    }
  }
  return false;
}

bool Reader::TakeCode(uint32_t serial, const CodeRecord* record, RawCode* code) {
  const uint8_t* bytes = reinterpret_cast<const uint8_t*>(record + 1);
  if (record->part_bytes != record->total_bytes) {
    Assembly* assembly = &assemblies_[0];
    for (Assembly& a : assemblies_) {
      if (a.serial == serial) assembly = &a;
    }
    for (Assembly& a : assemblies_) {
      if (assembly->serial != serial && a.serial == 0) assembly = &a;
    }
    if (record->offset == 0) {
      if (assembly->serial != 0) broken_codes_++;  // its last part never came
      assembly->serial = serial;
      assembly->key = record->key;
      assembly->got = 0;
    }
    if (assembly->serial != serial || assembly->key != record->key || assembly->got != record->offset ||
        !assembly->bytes.Reserve(record->total_bytes)) {
      return false;
    }
    memcpy(assembly->bytes.data() + assembly->got, bytes, record->part_bytes);
    assembly->got += record->part_bytes;
    if (assembly->got < record->total_bytes) return false;
    assembly->serial = 0;
    bytes = assembly->bytes.data();
  }
  CodeBlob blob;
  memcpy(&blob, bytes, sizeof(blob));
  const char* text = reinterpret_cast<const char*>(bytes + sizeof(blob));
  *code = {record->key,           text,
           blob.filename_bytes,   text + blob.filename_bytes,
           blob.name_bytes,       text + blob.filename_bytes + blob.name_bytes,
           blob.line_table_bytes, blob.first_line,
           blob.python_minor};
  return true;
}

void Reader::MarkPending(uint64_t packet_sequence) {
  for (size_t i = 0; i < order_.size(); i++) {
    Track& track = tracks_[order_[i]];
    if (track.number == 0 || track.event_position == track.marked) continue;
    ChunkDescriptor& chunk = g_state.chunks[order_[i]];
    // A packet that could not be written leaves its number to the next one: of two marks for it the later one holds.
    int taken = chunk.read[0].packet_sequence > chunk.read[1].packet_sequence ? 1 : 0;
    if (chunk.read[1 - taken].packet_sequence == packet_sequence) taken = 1 - taken;
    ReadSlot& slot = chunk.read[taken];
    Atomic(slot.packet_sequence).store(0, std::memory_order_relaxed);
    Atomic(slot.position).store(track.event_position, std::memory_order_release);
    Atomic(slot.packet_sequence).store(packet_sequence, std::memory_order_release);
    track.marked = track.event_position;
  }
}

void Reader::Commit() {
  for (size_t i = 0; i < order_.size(); i++) {
    uint32_t index = order_[i];
    Track& track = tracks_[index];
    if (track.number == 0) continue;  // given back by an earlier Commit of this pass
    ChunkDescriptor& chunk = g_state.chunks[index];
    uint32_t state = Atomic(chunk.state).load(std::memory_order_acquire);
    uint32_t committed = Atomic(chunk.committed).load(std::memory_order_acquire);
    // Texts are not waited for: who asks for them has them all by now, who does not loses nothing but them.
    bool drained =
        track.event_position == committed && track.stack_position == committed && track.code_position == committed;
    if (drained && (state == kChunkClosed || track.harvest)) Release(index);
  }
}

// A thread that records no more keeps its chunk. Where chunks run short, such a chunk is taken back in two steps, a
// barrier apart (the one at the start of each pass): tell the owner; then, if it is not in the middle of a record, it
// will see that before it touches the chunk again.
void Reader::Revoke() {
  if (!barrier_) return;
  const bool scarce = IsShort(*g_state.pool);
  for (size_t i = 0; i < order_.size(); i++) {
    Track& track = tracks_[order_[i]];
    ChunkDescriptor& chunk = g_state.chunks[order_[i]];
    bool idle = track.event_position == Atomic(chunk.committed).load(std::memory_order_relaxed);
    track.idle_passes = idle ? track.idle_passes + 1 : 0;
    if (Atomic(chunk.state).load(std::memory_order_acquire) != kChunkOpen) continue;
    Lane& lane = g_state.pool->lanes[chunk.owner_lane];
    if (track.revoking) {
      track.harvest = lane.in_flight.load(std::memory_order_acquire) == 0;
    } else if (scarce && track.idle_passes >= kIdlePasses &&
               lane.number.load(std::memory_order_relaxed) == track.number) {
      lane.revoked.store(track.number, std::memory_order_relaxed);
      track.revoking = true;
    }
  }
}

void Reader::Release(uint32_t index) {
  ChunkDescriptor& chunk = g_state.chunks[index];
  Pool* pool = g_state.pool;
  // First of all, and the rest after it: a recovery must not look at a chunk whose slots are being emptied.
  Atomic(chunk.state).store(kChunkFree, std::memory_order_relaxed);
  Atomic(chunk.read[0].packet_sequence).store(0, std::memory_order_release);
  Atomic(chunk.read[1].packet_sequence).store(0, std::memory_order_release);
  Atomic(chunk.committed).store(0, std::memory_order_relaxed);
  Atomic(chunk.definitions).store(0, std::memory_order_relaxed);
  tracks_[index] = {};
  pool->free_bits[index / 64].fetch_or(uint64_t{1} << (index % 64), std::memory_order_release);
  pool->free_chunks.fetch_add(1, std::memory_order_release);
  pool->congested.store(0, std::memory_order_relaxed);
}

}  // namespace gpumemshim::ring
