// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Reader: the other end of the ring. Goes over it in passes; a pass first fixes how far each kind of record is taken,
// so that nothing is used before its definition, then hands out texts, code objects, stacks and events, the events in
// one order for all threads.
//
// Thread-safety: one thread, and one Reader for a ring. Ownership: what Next* return points into the ring and is valid
// until Commit. Failure: Attach returns false without memory. A thread that holds an unfinished record holds later
// events back, for two seconds at most.
//
//   reader.BeginPass(false);
//   while (reader.NextText(&text)) ...
//   while (reader.NextCode(&code)) ...
//   while (reader.NextStack(&stack)) ...
//   while (room && reader.NextEvent(&event)) ...
//   reader.MarkPending(packet_sequence);   // before the packet is written
//   reader.Commit();                       // it is in the file: give drained chunks back

#ifndef GPUMEM_SHIM_RING_READER_H_
#define GPUMEM_SHIM_RING_READER_H_

#include <cstdint>

#include "shim/base/buffer.h"
#include "shim/ring/layout.h"

namespace gpumemshim::ring {

struct EventView {
  const Event* event;  // until the next call
  uint32_t serial;     // of its thread
  uint32_t tid;
  const char* thread_name;
};

struct StackView {
  uint64_t hash;
  const RawFrame* frames;  // innermost first
  uint32_t count;
};

struct TextView {
  uint64_t key;
  const char* text;  // without terminator
  uint32_t size;
  uint32_t field;  // not 0: a ready definition, see RecordReady
};

class Reader {
 public:
  // To the ring that is active now.
  bool Attach();

  // everything: the ring was stopped, take all there is.
  void BeginPass(bool everything);

  bool NextText(TextView* text);
  bool NextCode(RawCode* code);
  bool NextStack(StackView* stack);
  bool NextEvent(EventView* view);

  void MarkPending(uint64_t packet_sequence);
  void Commit();

  // Every event recorded before this time was handed out, once NextEvent has returned false.
  uint64_t watermark_ns() const { return watermark_ns_; }
  // Less than half of the ring is free.
  bool NeedsRoom() const;
  // The ring held more than a pass takes: the next one is due at once.
  bool has_more() const { return has_more_; }
  // Code objects that came in parts of which some were lost.
  uint64_t broken_codes() const { return broken_codes_; }

 private:
  // How far a chunk was read; offsets into it.
  struct Track {
    uint32_t event_position, event_limit;
    uint32_t stack_position, stack_limit;
    uint32_t code_position, code_limit;
    uint32_t text_position, text_limit;
    uint32_t stack_definitions, code_definitions, text_definitions;  // walked over so far
    uint32_t marked;                                                 // event_position of the last MarkPending
    uint32_t idle_passes;
    uint32_t number, serial;  // copies of the descriptor's, 0 while the chunk is free
    bool revoking, harvest;
  };
  struct Head {  // first event of a thread that was not handed out
    uint64_t time_ns;
    uint32_t rank;   // frees first, then by thread
    uint32_t order;  // index into order_
    uint32_t order_end;
  };
  struct LaneTrack {
    uint64_t in_flight;
    uint64_t since_ns;
    uint32_t passes;
    bool counted;
    bool gone;  // its owner is; true within ReapLanes only
  };
  struct Assembly {  // a code object whose parts are still coming
    uint32_t serial;
    uint32_t got;
    uint64_t key;
    Buffer bytes{kMaxCodeBytes + kChunkBytes};
  };
  static constexpr int kMaxAssemblies = 8;

  enum class Limit { kEvents, kStacks, kCodes, kTexts };

  uint64_t LowestInFlight(uint64_t now_ns);
  bool HasManyLanes() const;
  void ReapLanes();
  void ReapInTime(uint64_t now_ns);
  void Gather(Limit limit);
  void Sort();
  void ExtendClosed();
  void Bound();
  void BuildHeap();
  bool FindHead(uint32_t order, uint32_t order_end, Head* head);
  void ReplaceTop(const Head& head);
  void Revoke();
  void Release(uint32_t index);
  const RecordHeader* NextDefinition(uint16_t type, uint32_t* position, uint32_t limit, uint32_t* walked,
                                     uint32_t index);
  bool TakeCode(uint32_t serial, const CodeRecord* record, RawCode* code);
  const RecordHeader* RecordAt(uint32_t index, uint32_t position) const {
    return reinterpret_cast<const RecordHeader*>(data_ + size_t{index} * kChunkBytes + position);
  }

  const uint8_t* data_ = nullptr;  // of the chunks
  Array<Track> tracks_;
  Array<LaneTrack> lanes_;
  Array<uint32_t> order_;  // chunks in use, by thread and age
  Array<Head> heap_;
  Array<uint64_t> first_times_;  // of the chunks in use that hold an event
  Assembly assemblies_[kMaxAssemblies] = {};
  uint32_t code_cursor_ = 0;  // index into order_
  uint32_t stack_cursor_ = 0;
  uint32_t text_cursor_ = 0;
  Event event_{};  // what NextEvent handed out last
  uint64_t watermark_ns_ = 0;
  uint64_t reaped_ns_ = 0;
  uint64_t reap_cost_ns_ = 0;
  uint64_t broken_codes_ = 0;
  bool barrier_ = false;
  bool has_more_ = false;
};

}  // namespace gpumemshim::ring

#endif  // GPUMEM_SHIM_RING_READER_H_
