// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What lies in the ring's file that a killed process leaves behind, byte by byte, as the capture library lays it out.
// A description of our own, since the two sides share no code; a test compares it with the library's, field by field.
// docs/ring.md states the rules of recovery. Plain data; every value is hostile until ring_file.cc has checked it.
//
//   offset 0                RingHeader
//   descriptors_offset      ChunkDescriptor[chunk_count]
//   api_names_offset        api_count names, each terminated by a zero byte: the name of Event.api by index
//   chunks_offset           chunk_count chunks of chunk_bytes: records, one behind the other, from the chunk's start

#ifndef GPUMEM_ANALYZER_TRACE_RING_LAYOUT_H_
#define GPUMEM_ANALYZER_TRACE_RING_LAYOUT_H_

#include <cstddef>
#include <cstdint>

namespace gpumem::ring_layout {

inline constexpr uint64_t kMagic = 0x474e49524d555047;  // "GPUMRING" in file order
inline constexpr uint32_t kLayoutVersion = 3;
inline constexpr uint32_t kOldestLayoutVersion = 2;
inline constexpr uint64_t kVersion2HeaderBytes = 168;
inline constexpr uint32_t kChunkBytes = 16 * 1024;
inline constexpr uint64_t kMaxRingBytes = uint64_t{1} << 30;
inline constexpr uint32_t kThreadNameBytes = 16;
inline constexpr uint32_t kProgramNameBytes = 32;
inline constexpr uint32_t kTracePathBytes = 3072;
inline constexpr uint32_t kMaxFrames = 512;
inline constexpr uint32_t kMaxCodeBytes = uint32_t{4} << 20;
inline constexpr uint32_t kFramePython = 1;
inline constexpr uint32_t kFrameCut = 2;
inline constexpr uint32_t kFrameForward = 4;  // pc: hash of the stack outside; instruction: see NodeTextKey
inline constexpr uint32_t kFrameObjectShift = 8;
constexpr uint64_t NodeTextKey(uint32_t number) { return uint64_t{0x4e6f6465} << 32 | number; }

struct RingHeader {
  uint64_t magic;
  uint32_t layout_version;
  uint32_t pid;
  uint64_t process_start_ticks;
  uint64_t size_bytes;
  uint32_t chunk_bytes;
  uint32_t chunk_count;
  uint32_t reserved_chunks;
  uint32_t api_count;
  uint64_t descriptors_offset;
  uint64_t api_names_offset;
  uint64_t chunks_offset;
  uint32_t locked;
  uint32_t parent_pid;
  uint64_t anchor_monotonic_ns;
  uint64_t anchor_realtime_ns;
  char program[kProgramNameBytes];
  uint64_t dropped_allocs;
  uint64_t dropped_frees;
  uint64_t dropped_definitions;
  uint64_t truncated_stacks;
  uint64_t stalled_threads;
  // Since version 3; 0 before.
  uint64_t id;                // in the file's name too: equal for no two rings of a process id and start time
  uint64_t written_sequence;  // of a packet that is whole in the trace
  uint64_t mount_namespace;
  uint64_t trace_device, trace_inode;  // 0 while there is no trace
  uint32_t trace_path_bytes;           // 0 = not known
  uint32_t moved;                      // 1: a copy beside the trace, of a process that is gone
  uint64_t dead_since_s;
  char trace_path[kTracePathBytes];
};

enum ChunkState : uint32_t { kChunkFree = 0, kChunkOpen = 1, kChunkClosed = 2 };

// How far the trace file has a chunk, once the packet of that number is whole in it.
struct ReadSlot {
  uint64_t packet_sequence;
  uint32_t position;
  uint32_t padding;
};

struct ChunkDescriptor {
  uint32_t committed;
  uint32_t state;
  uint32_t owner_tid;
  uint32_t owner_serial;
  uint32_t number;
  uint32_t definitions;
  uint32_t owner_lane;
  uint32_t padding0;
  char thread_name[kThreadNameBytes];
  uint8_t padding1[16];
  ReadSlot read[2];
  uint8_t padding2[32];
};

enum RecordType : uint16_t { kRecordEvent = 1, kRecordStack = 2, kRecordCode = 3, kRecordText = 4 };

struct RecordHeader {
  uint16_t type;
  uint16_t reserved;
  uint32_t size;  // with this header, a multiple of 8
};

struct Event {
  uint64_t time_ns;
  uint64_t address;
  uint8_t kind;
  uint8_t layer;
  uint8_t memory;
  uint8_t reserved;
  int16_t device;
  uint16_t api;
  uint64_t size;
  uint64_t stack;
  uint64_t torch_allocated;  // of a mark: the key of its text
  uint64_t torch_reserved;
  uint64_t requested_size;
  uint64_t stream;
  uint64_t handle;
  uint32_t tag;
  uint32_t duration_ns;
  int32_t result;
  uint32_t reserved2;
};

// May end before the last fields: these are 0 then. Never before kLeastEventBytes.
struct EventRecord {
  RecordHeader header;
  Event event;
};
inline constexpr uint32_t kLeastEventBytes = 24;  // up to `api`

// Followed by RawFrame[count], innermost first.
struct StackRecord {
  RecordHeader header;
  uint64_t hash;
  uint32_t count;
  uint32_t reserved;
};

struct RawFrame {
  uint64_t pc;  // Python: the key of the code object
  uint32_t instruction;
  uint32_t flags;
};

// One part of a code object: a CodeBlob and its three texts, which may come in several parts.
struct CodeRecord {
  RecordHeader header;
  uint64_t key;
  uint32_t total_bytes;
  uint32_t offset;
  uint32_t part_bytes;
  uint32_t reserved;
};

// The text of a mark, or a definition as trace.proto has it, followed by its bytes.
struct TextRecord {
  RecordHeader header;
  uint64_t key;  // 0: a definition
  uint32_t bytes;
  uint32_t field;  // of Definitions, that the bytes are one element of; else 0
};

struct CodeBlob {
  uint32_t first_line;
  uint32_t python_minor;
  uint32_t filename_bytes;
  uint32_t name_bytes;
  uint32_t line_table_bytes;
  uint32_t reserved;
};

}  // namespace gpumem::ring_layout

#endif  // GPUMEM_ANALYZER_TRACE_RING_LAYOUT_H_
