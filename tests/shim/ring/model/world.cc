// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "world.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>

#include "explorer.h"
#include "memory.h"
#include "operating_system.h"
#include "shim/ring/layout.h"
#include "shim/ring/state.h"

namespace model {
namespace {

using gpumemshim::Event;
using gpumemshim::EventKind;
namespace ring = gpumemshim::ring;

constexpr int kLanesToReset = 32;

void FailAt(const char* what, int writer, int number) {
  char text[160];
  std::snprintf(text, sizeof(text), "%s: event %d of thread %d", what, number, writer);
  Explorer::Get().Fail(text);
}

alignas(ring::Reader) char g_reader[sizeof(ring::Reader)];

}  // namespace

World& World::Get() {
  static World world;
  return world;
}

void World::Reset(uint32_t withdrawn, uint32_t present) {
  OperatingSystem::Get().Reset();
  std::memset(OperatingSystem::Get().mapping(), 0, OperatingSystem::kMappingBytes);
  ring::Pool* const pool = ring::g_state.pool;
  if (pool != nullptr) {
    std::memset(static_cast<void*>(pool->lanes), 0, kLanesToReset * sizeof(ring::Lane));
    for (auto& word : pool->taken_lanes) word = 0;
    pool->lane_limit = 0;
    pool->lanes_short = 0;
    pool->last_serial = 0;
    pool->high_chunks = 0;
    ring::Hot* const hot = ring::g_hot.load();
    hot->generation = 0;
    hot->mapped = 0;  // else Start would unmap what is not its own
  }
  ring::g_state.generation = 0;
  ring::g_wake = 0;
  ring::t_lane = nullptr;
  now_ns_ = 1'000'000'000;
  sequence_ = whole_ = 0;
  file_.clear(), pending_.clear(), file_stacks_.clear(), pending_stacks_.clear();
  std::memset(begun_, 0, sizeof(begun_));
  std::memset(fates_, 0, sizeof(fates_));
  refused_allocs_ = refused_frees_ = refused_definitions_ = 0;
  ring::Config config;
  config.size_bytes = ring::kMinSizeBytes;
  config.first_chunks = present;
  if (!ring::Start(config)) Explorer::Get().Fail("the ring did not start");
  withdrawn_ = withdrawn;
  stopped_ = false;
  ring::g_state.pool->free_bits[0] = ring::g_state.pool->free_bits[0].load() >> withdrawn << withdrawn;
  ring::g_state.pool->free_chunks -= static_cast<int32_t>(withdrawn);
  reader_ = new (g_reader) ring::Reader;
  if (!reader_->Attach()) Explorer::Get().Fail("no reader");
  Memory::Get().Watch(OperatingSystem::Get().mapping(), OperatingSystem::kMappingBytes);
  Memory::Get().Watch(ring::g_state.pool->lanes, kLanesToReset * sizeof(ring::Lane));
}

// Outside of fibers: whose thread we are from here on.
void World::Become(int writer) {
  if (Explorer::Get().current() < 0) OperatingSystem::Get().Become(writer);
}

void World::RecordEvent(int writer, EventKind kind, uint64_t stack) {
  Become(writer);
  const uint8_t number = ++begun_[writer];
  Event event{};
  event.kind = kind;
  event.address = static_cast<uint64_t>(writer);
  event.size = number;
  event.stack = stack;
  const bool taken = ring::Record(event);
  Explorer::Get().SetChanged();
  fates_[writer][number] = taken ? Fate::kRecorded : Fate::kRefused;
  if (!taken) ++(gpumemshim::IsFree(kind) ? refused_frees_ : refused_allocs_);
}

void World::Record(int writer, EventKind kind) { RecordEvent(writer, kind, 0); }

void World::RecordWithin(int writer, EventKind kind, bool taken, uint64_t shortest_ns, uint64_t longest_ns) {
  const uint64_t before_ns = now_ns_;
  RecordEvent(writer, kind, 0);
  const uint64_t waited_ns = now_ns_ - before_ns;
  const Fate fate = fates_[writer][begun_[writer]];
  if ((fate == Fate::kRecorded) != taken) FailAt("taken or refused against the rule", writer, begun_[writer]);
  if (waited_ns < shortest_ns) FailAt("refused without a wait", writer, begun_[writer]);
  if (waited_ns > longest_ns) FailAt("held up for too long", writer, begun_[writer]);
}

void World::RecordWithStack(int writer, uint32_t frames) {
  static const ring::RawFrame kFrames[ring::kMaxFrames] = {};
  Become(writer);
  const uint64_t stack = static_cast<uint64_t>(writer) * 100 + begun_[writer] + 1;
  const bool defined = ring::RecordStack(stack, kFrames, frames);
  if (!defined) ++refused_definitions_;
  RecordEvent(writer, EventKind::kAlloc, defined ? stack : 0);
}

void World::FillChunk(int writer) {
  static const ring::RawFrame kFrames[ring::kMaxFrames] = {};
  Become(writer);
  const uint64_t stack = static_cast<uint64_t>(writer) * 100 + 98;
  while (true) {
    const uint32_t room = ring::kChunkBytes - ring::t_lane->position;
    if (room < sizeof(ring::RecordHeader) + ring::kLeastEventBytes) return;
    const size_t frames = (room - sizeof(ring::StackRecord)) / sizeof(ring::RawFrame);
    ring::RecordStack(stack, kFrames, static_cast<uint32_t>(std::min<size_t>(frames, ring::kMaxFrames)));
  }
}

void World::TakePass() {
  ring::RawCode code;
  while (reader_->NextCode(&code)) {
  }
  ring::StackView stack;
  while (reader_->NextStack(&stack)) pending_stacks_.push_back(stack.hash);
  ring::EventView view;
  while (reader_->NextEvent(&view)) {
    const Event& e = *view.event;
    if (e.address >= kMaxWriters || e.size == 0 || e.size > kMaxEvents) {
      Explorer::Get().Fail("an event that nobody recorded was handed out");
      return;
    }
    pending_.push_back({static_cast<uint8_t>(e.address), static_cast<uint8_t>(e.size), gpumemshim::IsFree(e.kind),
                        e.time_ns, e.stack});
  }
}

void World::Pass(bool everything, bool mark_late) {
  Become(kMaxWriters - 1);
  const bool exploring = Explorer::Get().IsExploring();
  reader_->BeginPass(everything);
  TakePass();
  if (!pending_.empty() || !pending_stacks_.empty()) {
    ++sequence_;
    if (!mark_late) reader_->MarkPending(sequence_);
    if (exploring) Explorer::Get().Point();  // half a packet is in the file
    const size_t from = file_.size();
    file_stacks_.insert(file_stacks_.end(), pending_stacks_.begin(), pending_stacks_.end());
    file_.insert(file_.end(), pending_.begin(), pending_.end());
    pending_.clear(), pending_stacks_.clear();
    whole_ = sequence_;
    Explorer::Get().SetChanged();
    CheckOrderOfFile(from);
    if (exploring) Explorer::Get().Point();  // the whole packet is
    if (mark_late) reader_->MarkPending(sequence_);
  }
  reader_->Commit();
}

void World::Stop() {
  Become(kMaxWriters - 1);
  stopped_ = stopped_ || Explorer::Get().IsExploring();
  ring::Stop(1000);
}

void World::Shrink(uint32_t target) {
  Become(kMaxWriters - 1);
  ring::Shrink(target);
}

void World::CheckOrderOfFile(size_t from) {
  for (size_t i = std::max<size_t>(from, 1); i < file_.size(); ++i) {
    const FileEvent &before = file_[i - 1], &event = file_[i];
    if (event.time_ns < before.time_ns) FailAt("handed out too late", event.writer, event.number);
  }
  for (size_t i = from; i < file_.size(); ++i) {
    if (file_[i].stack != 0 &&
        std::find(file_stacks_.begin(), file_stacks_.end(), file_[i].stack) == file_stacks_.end())
      FailAt("before its stack's definition", file_[i].writer, file_[i].number);
  }
}

// The rules of layout.h, plainly.
void World::CountInRing(uint8_t (*found)[kMaxEvents + 1], std::vector<uint64_t>* stacks) {
  const char* const mapping = OperatingSystem::Get().mapping();
  const auto* header = reinterpret_cast<const ring::RingHeader*>(mapping);
  const auto* chunks = reinterpret_cast<const ring::ChunkDescriptor*>(mapping + header->descriptors_offset);
  for (uint32_t i = 0; i < header->chunk_count; ++i) {
    const ring::ChunkDescriptor& chunk = chunks[i];
    if (chunk.state == ring::kChunkFree) continue;
    const size_t offset = header->chunks_offset + size_t{i} * header->chunk_bytes;
    if (!OperatingSystem::Get().HasBlocks(offset, header->chunk_bytes)) {
      Explorer::Get().Fail("a chunk was handed out before it had its blocks");
      return;
    }
    uint64_t best = 0;
    uint32_t position = 0;
    for (const ring::ReadSlot& slot : chunk.read) {
      if (slot.packet_sequence <= best || slot.packet_sequence > whole_) continue;
      best = slot.packet_sequence;
      position = slot.position;
    }
    const char* const data = mapping + header->chunks_offset + size_t{i} * header->chunk_bytes;
    for (uint32_t at = 0; at < chunk.committed;) {
      const auto* record = reinterpret_cast<const ring::RecordHeader*>(data + at);
      if (record->size < sizeof(*record) || record->size % 8 != 0 || record->size > chunk.committed - at) {
        Explorer::Get().Fail("a chunk whose records do not follow each other");
        return;
      }
      if (record->type == ring::kRecordStack)
        stacks->push_back(reinterpret_cast<const ring::StackRecord*>(record)->hash);
      if (record->type == ring::kRecordEvent && at >= position) {
        const Event e = ring::EventOf(*reinterpret_cast<const ring::EventRecord*>(record));
        if (e.address >= kMaxWriters || e.size == 0 || e.size > kMaxEvents) {
          Explorer::Get().Fail("a recovery would find an event that nobody recorded");
          return;
        }
        ++found[e.address][e.size];
        if (e.stack != 0) stacks->push_back(e.stack | uint64_t{1} << 63);  // wanted; looked at below
      }
      at += record->size;
    }
  }
}

void World::CheckKillNow() {
  uint8_t found[kMaxWriters][kMaxEvents + 1] = {};
  static std::vector<uint64_t> stacks;
  stacks.clear();
  for (const FileEvent& event : file_) ++found[event.writer][event.number];
  CountInRing(found, &stacks);
  for (const uint64_t wanted : stacks) {
    if (wanted >> 63 == 0) continue;
    const uint64_t stack = wanted & ~(uint64_t{1} << 63);
    if (std::find(stacks.begin(), stacks.end(), stack) == stacks.end() &&
        std::find(file_stacks_.begin(), file_stacks_.end(), stack) == file_stacks_.end())
      Explorer::Get().Fail("a kill now would lose a stack");
  }
  for (int writer = 0; writer < kMaxWriters; ++writer) {
    for (int number = 1; number <= begun_[writer]; ++number) {
      const Fate fate = fates_[writer][number];
      const int count = found[writer][number];
      if (count > 1) FailAt("a kill now would find twice", writer, number);
      if (count == 0 && fate == Fate::kRecorded) FailAt("a kill now would lose", writer, number);
      if (count != 0 && fate == Fate::kRefused) FailAt("a kill now would find what was refused", writer, number);
    }
  }
}

void World::CheckCounts() {
  const ring::Stats stats = ring::GetStats();
  if (stopped_) return;
  if (stats.dropped_allocs != refused_allocs_ || stats.dropped_frees != refused_frees_ ||
      stats.dropped_definitions != refused_definitions_)
    Explorer::Get().Fail("the losses are not counted as they were");
}

void World::Finish(uint32_t leaked) {
  if (!Explorer::Get().failure().empty()) return;
  Stop();
  Pass(true);
  CheckKillNow();
  CheckCounts();
  for (int writer = 0; writer < kMaxWriters; ++writer) {
    for (int number = 1; number <= begun_[writer]; ++number) {
      const auto is_it = [&](const FileEvent& e) { return e.writer == writer && e.number == number; };
      const auto count = std::count_if(file_.begin(), file_.end(), is_it);
      if (fates_[writer][number] == Fate::kRecorded && count != 1) FailAt("the file lacks", writer, number);
    }
  }
  const ring::Pool* const pool = ring::g_state.pool;
  const auto bits = static_cast<uint32_t>(__builtin_popcountll(pool->free_bits[0].load()));
  const auto count = static_cast<uint32_t>(pool->free_chunks.load());
  uint32_t held = withdrawn_;
  const uint32_t present = pool->present_chunks.load();
  for (uint32_t i = 0; i < ring::g_state.chunk_count; ++i) held += ring::g_state.chunks[i].state != ring::kChunkFree;
  if (count > bits || bits > count + leaked || bits + held > present || count + held + leaked < present)
    Explorer::Get().Fail("chunks were lost or are counted twice");
  reader_->~Reader();
}

}  // namespace model
