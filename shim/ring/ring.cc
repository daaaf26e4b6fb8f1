// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/ring/ring.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/base/clock.h"
#include "shim/ring/mapping.h"
#include "shim/ring/state.h"

namespace gpumemshim::ring {
namespace {

enum class Loss { kAlloc, kFree, kDefinition };

[[gnu::cold]] void Count(uint64_t RingHeader::*counter) {
  Atomic(g_state.header->*counter).fetch_add(1, std::memory_order_relaxed);
}

[[gnu::cold]] void CountLoss(Loss loss) {
  Count(loss == Loss::kAlloc  ? &RingHeader::dropped_allocs
        : loss == Loss::kFree ? &RingHeader::dropped_frees
                              : &RingHeader::dropped_definitions);
}

bool HasRoom(const Lane* lane, uint32_t generation, uint32_t bytes, bool is_free) {
  if (lane == nullptr || lane->generation != generation || lane->data == nullptr) return false;
  if (lane->position + bytes > kChunkBytes) return false;
  if (!lane->from_reserve || is_free) return true;
  return g_state.pool->free_chunks.load(std::memory_order_relaxed) > ReservedChunks(*g_state.pool);
}

[[gnu::noinline]] bool MakeRoom(uint32_t generation, bool is_free) {
  int saved = errno;
  Lane* lane = TakeLane();
  errno = saved;
  if (lane == nullptr || lane->taking.load(std::memory_order_relaxed) != 0) return false;
  if (lane->in_flight.load(std::memory_order_relaxed) != 0) return false;  // a signal handler inside Record
  return TakeChunk(lane, generation, is_free);
}

// Opens a record: room for `bytes`, and in_flight set. nullptr: inactive, or lost and counted.
inline Lane* Begin(uint32_t bytes, Loss loss) {
  const Hot* hot = g_hot.load(std::memory_order_relaxed);
  for (int attempt = 0; attempt < 4; attempt++) {
    uint32_t generation = hot->generation.load(std::memory_order_acquire);
    if (generation == 0) return nullptr;
    Lane* lane = t_lane;
    bool is_free = loss == Loss::kFree;
    if (!HasRoom(lane, generation, bytes, is_free)) [[unlikely]] {
      if (!MakeRoom(generation, is_free)) break;
      lane = t_lane;
    }
    if (lane->in_flight.load(std::memory_order_relaxed) != 0) [[unlikely]]
      break;  // a signal handler inside Record
    lane->in_flight.store(hot->reader_time_ns.load(std::memory_order_relaxed), std::memory_order_relaxed);
    // Pairs with the reader's HeavyBarrier: what follows (the two checks, the clock) is not done before others can see
    // in_flight.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    bool mine = hot->generation.load(std::memory_order_relaxed) == generation &&
                lane->revoked.load(std::memory_order_relaxed) != lane->number.load(std::memory_order_relaxed);
    // Room once more: a signal handler may have used it up before in_flight was set.
    if (mine && lane->data != nullptr && lane->position + bytes <= kChunkBytes) [[likely]]
      return lane;
    if (!mine) {
      lane->data = nullptr;
      lane->chunk = nullptr;
    }
    lane->in_flight.store(0, std::memory_order_release);
  }
  if (hot->generation.load(std::memory_order_relaxed) != 0) CountLoss(loss);
  return nullptr;
}

// Publishes the record of `bytes` at the lane's position.
inline void Commit(Lane* lane, uint32_t bytes) {
  lane->position += bytes;
  Atomic(lane->chunk->committed).store(lane->position, std::memory_order_release);
  lane->in_flight.store(0, std::memory_order_release);
}

inline void CommitDefinition(Lane* lane, uint32_t bytes) {
  auto definitions = Atomic(lane->chunk->definitions);
  definitions.store(definitions.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  Commit(lane, bytes);
}

// How much of an event is stored: up to a field that is not 0.
uint32_t StoredBytes(const Event& e) {
  if ((e.handle | e.tag | e.duration_ns | static_cast<uint32_t>(e.result)) != 0) return sizeof(Event);
  if ((e.requested_size | e.stream) != 0) return kRequestEventBytes;
  return (e.size | e.stack | e.torch_allocated | e.torch_reserved) != 0 ? kMiddleEventBytes : kLeastEventBytes;
}

constexpr uint32_t RoundUp8(uint32_t bytes) { return (bytes + 7) & ~7u; }

// Hands out the bytes of a code object part by part, wherever they lie.
struct CodeBytes {
  const void* pieces[4];
  uint32_t sizes[4];

  void Copy(uint32_t offset, uint8_t* to, uint32_t bytes) const {
    for (int i = 0; i < 4 && bytes != 0; i++) {
      if (offset >= sizes[i]) {
        offset -= sizes[i];
        continue;
      }
      uint32_t n = sizes[i] - offset < bytes ? sizes[i] - offset : bytes;
      memcpy(to, static_cast<const uint8_t*>(pieces[i]) + offset, n);
      to += n;
      bytes -= n;
      offset = 0;
    }
  }
};

}  // namespace

bool Active() { return g_hot.load(std::memory_order_relaxed)->generation.load(std::memory_order_relaxed) != 0; }

bool Record(Event& event, uint64_t started_ns) {
  const uint32_t stored = started_ns != 0 ? sizeof(Event) : StoredBytes(event);
  const auto bytes = static_cast<uint32_t>(sizeof(RecordHeader)) + stored;
  Lane* lane = Begin(bytes, IsFree(event.kind) ? Loss::kFree : Loss::kAlloc);
  if (lane == nullptr) return false;
  const uint64_t time_ns = event.time_ns != 0 ? event.time_ns : MonotonicNs();
  if (started_ns != 0) {
    uint64_t duration_ns = time_ns - started_ns;
    event.duration_ns = duration_ns > UINT32_MAX ? UINT32_MAX : static_cast<uint32_t>(duration_ns);
  }
  auto* record = reinterpret_cast<EventRecord*>(lane->data + lane->position);
  record->header = {kRecordEvent, 0, bytes};
  // Of sizes that are known here: a few moves each.
  if (stored == sizeof(Event)) {
    memcpy(&record->event, &event, sizeof(Event));
  } else if (stored == kRequestEventBytes) {
    memcpy(&record->event, &event, kRequestEventBytes);
  } else if (stored == kMiddleEventBytes) {
    memcpy(&record->event, &event, kMiddleEventBytes);
  } else {
    memcpy(&record->event, &event, kLeastEventBytes);
  }
  // After the copy: a wide load of what was stored an instant ago would wait for the store.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  record->event.time_ns = event.time_ns = time_ns;
  Commit(lane, bytes);
  return true;
}

bool RecordStack(uint64_t hash, const RawFrame* frames, uint32_t count) {
  bool cut = count > kMaxFrames;
  if (cut) count = kMaxFrames;
  uint32_t bytes = static_cast<uint32_t>(sizeof(StackRecord) + count * sizeof(RawFrame));
  Lane* lane = Begin(bytes, Loss::kDefinition);
  if (lane == nullptr) return false;
  if (cut) Count(&RingHeader::truncated_stacks);
  auto* record = reinterpret_cast<StackRecord*>(lane->data + lane->position);
  *record = {{kRecordStack, 0, bytes}, hash, count, 0};
  if (count != 0) memcpy(record + 1, frames, count * sizeof(RawFrame));
  CommitDefinition(lane, bytes);
  return true;
}

bool RecordCode(const RawCode& code) {
  CodeBlob blob = {code.first_line, code.python_minor, code.filename_size, code.name_size, code.line_table_size, 0};
  uint64_t total = sizeof(blob) + uint64_t{code.filename_size} + code.name_size + code.line_table_size;
  if (total > kMaxCodeBytes) {  // names matter more than lines
    blob.line_table_bytes = 0;
    total -= code.line_table_size;
    if (total > kMaxCodeBytes) return false;
  }
  CodeBytes bytes = {{&blob, code.filename, code.name, code.line_table},
                     {sizeof(blob), code.filename_size, code.name_size, blob.line_table_bytes}};
  for (uint32_t offset = 0; offset < total;) {
    uint32_t part = static_cast<uint32_t>(total) - offset;
    if (part > kMaxCodePartBytes) part = kMaxCodePartBytes;
    uint32_t size = RoundUp8(static_cast<uint32_t>(sizeof(CodeRecord)) + part);
    Lane* lane = Begin(size, Loss::kDefinition);
    if (lane == nullptr) return false;
    auto* record = reinterpret_cast<CodeRecord*>(lane->data + lane->position);
    *record = {{kRecordCode, 0, size}, code.key, static_cast<uint32_t>(total), offset, part, 0};
    bytes.Copy(offset, reinterpret_cast<uint8_t*>(record + 1), part);
    CommitDefinition(lane, size);
    offset += part;
  }
  return true;
}

namespace {

bool LeaveText(TextRecord text, const void* content) {
  const uint32_t bytes = RoundUp8(static_cast<uint32_t>(sizeof(TextRecord)) + text.bytes);
  Lane* lane = Begin(bytes, Loss::kDefinition);
  if (lane == nullptr) return false;
  auto* record = reinterpret_cast<TextRecord*>(lane->data + lane->position);
  text.header = {kRecordText, 0, bytes};
  *record = text;
  if (text.bytes != 0) memcpy(record + 1, content, text.bytes);
  CommitDefinition(lane, bytes);
  return true;
}

}  // namespace

bool RecordText(uint64_t key, const char* text, uint32_t size) {
  return LeaveText({{}, key, size > kMaxTextBytes ? kMaxTextBytes : size, 0}, text);
}

bool RecordReady(uint32_t field, const void* message, uint32_t size) {
  return size <= kMaxReadyBytes && LeaveText({{}, 0, size, field}, message);
}

}  // namespace gpumemshim::ring
