// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What lies in the ring's mapping, byte by byte. The only thing that a recovery after kill -9 has to know; nothing else
// of the ring matters to it. Plain data: the ring reaches the shared words through std::atomic_ref, a recovery reads a
// file that nobody writes any more.
//
//   offset 0                RingHeader (one page)
//   descriptors_offset      ChunkDescriptor[chunk_count]
//   api_names_offset        api_count names, each terminated by a zero byte: the name of Event.api by index
//   chunks_offset           chunk_count chunks of chunk_bytes: records, one behind the other, from the chunk's start
//
// chunk_count and size_bytes are those of the file as it is now: they grow with it (version 3), before a chunk of the
// new part is handed out.
//
// To recover what the trace file lacks: S = sequence of the last whole packet in the file. For each chunk whose state
// is not kChunkFree, the records in [p, committed) are missing, where p is `position` of the read slot with the largest
// packet_sequence <= S that is not 0, or 0 where there is none. Chunks of one owner_serial follow each other by
// `number`. Then merge the owners by Event.time_ns (frees first at equal times). Definitions in [0, committed) hold
// too, and the file names those that went out already (Definitions.stack_keys, PythonCode.key); Thread.id is
// owner_serial. A record that its thread had not finished lies behind `committed` and does not exist.
//
// The ring of a dead process may be found beside its trace instead, under the trace's name with ".ring" behind it:
// shim/ring/dead_rings.h. It is laid out the same, `moved` is 1, and holds only chunks that the trace may lack
// something of.
//
// Version 2 ended its header with dropped_* and zeros, and its file had all its blocks from the start.

#ifndef GPUMEM_SHARED_RING_LAYOUT_H_
#define GPUMEM_SHARED_RING_LAYOUT_H_

#include <cstddef>
#include <cstdint>

#include "shared/event.h"

namespace gpumem::format {

inline constexpr uint64_t kMagic =
    0x474e49524d555047;  // "GPUMRING" in file order; written last, so a half-made mapping has none
inline constexpr uint32_t kLayoutVersion = 3;
inline constexpr uint32_t kOldestLayoutVersion = 2;  // that can be recovered
inline constexpr uint64_t kVersion2HeaderBytes = 168;
inline constexpr uint64_t kMaxRingBytes = uint64_t{1} << 30;
inline constexpr uint32_t kMaxFrames = 512;  // of one stack; outer frames beyond are cut and counted
inline constexpr uint32_t kMaxCodeBytes = uint32_t{4} << 20;
inline constexpr uint32_t kChunkBytes = 16 * 1024;
inline constexpr size_t kPageBytes = 4096;
inline constexpr uint32_t kThreadNameBytes = 16;
inline constexpr uint32_t kProgramNameBytes = 32;
inline constexpr uint32_t kTracePathBytes = 3072;

struct RingHeader {
  uint64_t magic;
  uint32_t layout_version;
  uint32_t pid;
  uint64_t process_start_ticks;  // field 22 of /proc/PID/stat: tells a reused pid
  uint64_t size_bytes;
  uint32_t chunk_bytes;
  uint32_t chunk_count;
  uint32_t reserved_chunks;  // the last ones, which only frees may take
  uint32_t api_count;
  uint64_t descriptors_offset;
  uint64_t api_names_offset;
  uint64_t chunks_offset;
  uint32_t locked;  // 1: the file is locked (flock) for as long as its process has it mapped
  // For a trace that has to be made from the ring alone; 0 and "" = not known.
  uint32_t parent_pid;
  uint64_t anchor_monotonic_ns;  // the two clocks at the same moment
  uint64_t anchor_realtime_ns;
  char program[kProgramNameBytes];  // cut where it is longer, terminated

  // Losses so far, written by whoever loses something; rare.
  uint64_t dropped_allocs;
  uint64_t dropped_frees;
  uint64_t dropped_definitions;
  uint64_t truncated_stacks;
  uint64_t stalled_threads;

  // From here on since version 3.
  uint64_t id;                // in the file's name too: equal for no two rings of a process id and start time
  uint64_t written_sequence;  // of a packet that is whole in the trace, stored after that; 0 = none
  uint64_t mount_namespace;   // where trace_path means what it says: inode of /proc/self/ns/mnt; 0 = not known
  // The trace; its device and inode are 0 while it is only wanted there.
  uint64_t trace_device;
  uint64_t trace_inode;
  uint32_t trace_path_bytes;         // 0 = not known, or being changed
  uint32_t moved;                    // 1: a copy beside the trace of what was in the ring of a process that is gone
  uint64_t dead_since_s;             // when somebody first found the process gone, CLOCK_REALTIME; 0 = nobody did
  char trace_path[kTracePathBytes];  // absolute, terminated
};
static_assert(sizeof(RingHeader) == 224 + kTracePathBytes && sizeof(RingHeader) <= kPageBytes);
static_assert(offsetof(RingHeader, dropped_allocs) == 128);
static_assert(offsetof(RingHeader, id) == kVersion2HeaderBytes);

enum ChunkState : uint32_t { kChunkFree = 0, kChunkOpen = 1, kChunkClosed = 2 };

// How far the file has a chunk. Two slots take turns: the older one is invalidated (packet_sequence 0), given its
// position, then the number of the packet that is about to be written. If the process dies before that packet is whole
// in the file, the other slot holds.
struct ReadSlot {
  uint64_t packet_sequence;
  uint32_t position;
  uint32_t padding;
};

struct ChunkDescriptor {
  // The owner's cache line.
  uint32_t committed;     // bytes of finished records; release store, pairs with the reader's acquire load
  uint32_t state;         // ChunkState
  uint32_t owner_tid;     // kernel thread id
  uint32_t owner_serial;  // number of the thread in this trace, from 1: Thread.id
  uint32_t number;        // how many chunks the owner had taken before and with this one
  uint32_t definitions;   // records in it that are not events
  uint32_t owner_lane;    // of no use to a recovery
  uint32_t padding0;
  char thread_name[kThreadNameBytes];  // as the kernel had it when the thread took its first chunk
  uint8_t padding1[16];

  // The reader's cache line.
  ReadSlot read[2];
  uint8_t padding2[32];
};
static_assert(sizeof(ChunkDescriptor) == 128);
static_assert(offsetof(ChunkDescriptor, read) == 64);

enum RecordType : uint16_t { kRecordEvent = 1, kRecordStack = 2, kRecordCode = 3, kRecordText = 4 };

// Before every record. size counts this header too and is a multiple of 8.
struct RecordHeader {
  uint16_t type;
  uint16_t reserved;
  uint32_t size;
};

// May end before the event's last fields, which are 0 then, but not before kLeastEventBytes of it: most events have
// neither a handle nor a result to tell, and what the hooks write pushes out of the caches what the program has there.
struct EventRecord {
  RecordHeader header;
  Event event;
};
static_assert(sizeof(EventRecord) == 104);
inline constexpr uint32_t kLeastEventBytes = offsetof(Event, size);
inline constexpr uint32_t kMiddleEventBytes = offsetof(Event, requested_size);
inline constexpr uint32_t kRequestEventBytes = offsetof(Event, handle);
static_assert(kLeastEventBytes == 24 && kMiddleEventBytes == 56 && kRequestEventBytes == 72);

inline Event EventOf(const EventRecord& record) {
  Event event{};
  const uint32_t stored = record.header.size - static_cast<uint32_t>(sizeof(RecordHeader));
  // Of sizes that are known here: a few moves each.
  if (stored == kMiddleEventBytes) {
    __builtin_memcpy(&event, &record.event, kMiddleEventBytes);
  } else if (stored == kRequestEventBytes) {
    __builtin_memcpy(&event, &record.event, kRequestEventBytes);
  } else if (stored == sizeof(Event)) {
    __builtin_memcpy(&event, &record.event, sizeof(Event));
  } else {
    __builtin_memcpy(&event, &record.event, stored);
  }
  return event;
}

// Followed by RawFrame[count], innermost first.
struct StackRecord {
  RecordHeader header;
  uint64_t hash;
  uint32_t count;
  uint32_t reserved;
};
static_assert(sizeof(StackRecord) == 24);

// One frame as captured. Frames of a stack stand innermost first.
struct RawFrame {
  uint64_t pc;           // native: return address; Python: the key that RecordCode was given
  uint32_t instruction;  // Python: byte offset of the instruction in the bytecode; native: number of the module
  uint32_t flags;        // kFramePython, kFrameCut or 0
};
static_assert(sizeof(RawFrame) == 16, "part of the mapping's layout");
inline constexpr uint32_t kFramePython = 1;
inline constexpr uint32_t kFrameCut = 2;  // no frame, the outermost end: there are callers that were not recorded
// No frame, outermost: the frames inside are an autograd node's backward pass. pc: hash of the stack, known before,
// with which the forward pass made the node, 0 = not known; instruction: number of the node's class, of which
// NodeTextKey is the text.
inline constexpr uint32_t kFrameForward = 4;
constexpr uint64_t NodeTextKey(uint32_t number) { return uint64_t{0x4e6f6465} << 32 | number; }  // "Node"
// Python frames: number of the nn.Module object whose call it is, in the bits above the flags.
inline constexpr uint32_t kFrameObjectShift = 8;
inline constexpr uint32_t kMaxFrameObject = (1u << 24) - 1;

// One part of a code object, followed by part_bytes bytes and padding. The parts of one object follow each other in
// their thread's records, from offset 0 to total_bytes; a new part at offset 0 begins anew. Together they are a
// CodeBlob and its three texts.
struct CodeRecord {
  RecordHeader header;
  uint64_t key;
  uint32_t total_bytes;
  uint32_t offset;
  uint32_t part_bytes;
  uint32_t reserved;
};
static_assert(sizeof(CodeRecord) == 32);
inline constexpr uint32_t kMaxCodePartBytes = 4096;

// The text of a mark, or a definition that is ready to be written, followed by its bytes and padding. A reader that
// knows neither passes over it.
struct TextRecord {
  RecordHeader header;
  uint64_t key;  // 0: a ready definition
  uint32_t bytes;
  uint32_t field;  // ready definition: its number in trace.proto's Definitions; else 0
};
static_assert(sizeof(TextRecord) == 24);

struct CodeBlob {
  uint32_t first_line;
  uint32_t python_minor;
  uint32_t filename_bytes;  // the texts stand in this order, without terminators
  uint32_t name_bytes;
  uint32_t line_table_bytes;
  uint32_t reserved;
};
static_assert(sizeof(CodeBlob) == 24);

}  // namespace gpumem::format

#endif  // GPUMEM_SHARED_RING_LAYOUT_H_
