// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The analyzer's description of the ring is the capture library's: sizes, places and numbers. Neither side includes the
// other, so this test, which belongs to neither, includes both.

#include "trace/ring_layout.h"

#include <gtest/gtest.h>

#include "gpumem/trace.pb.h"
#include "shim/ring/layout.h"
#include "trace/ring_definitions.h"

namespace {

namespace ours = gpumem::ring_layout;
namespace theirs = gpumemshim::ring;

#define SAME_SIZE(type, their_type) static_assert(sizeof(ours::type) == sizeof(their_type))
#define SAME_PLACE(type, their_type, field)                                   \
  static_assert(offsetof(ours::type, field) == offsetof(their_type, field) && \
                sizeof(ours::type::field) == sizeof(their_type::field))

static_assert(ours::kMagic == theirs::kMagic && ours::kLayoutVersion == theirs::kLayoutVersion);
static_assert(ours::kChunkBytes == theirs::kChunkBytes && ours::kMaxRingBytes == theirs::kMaxSizeBytes);
static_assert(ours::kThreadNameBytes == theirs::kThreadNameBytes && ours::kMaxFrames == theirs::kMaxFrames);
static_assert(ours::kMaxCodeBytes == theirs::kMaxCodeBytes && ours::kFramePython == theirs::kFramePython &&
              ours::kFrameCut == theirs::kFrameCut && ours::kFrameForward == theirs::kFrameForward &&
              ours::kFrameObjectShift == theirs::kFrameObjectShift && ours::NodeTextKey(7) == theirs::NodeTextKey(7));
static_assert(int{ours::kChunkFree} == int{theirs::kChunkFree} && int{ours::kChunkOpen} == int{theirs::kChunkOpen} &&
              int{ours::kChunkClosed} == int{theirs::kChunkClosed});
static_assert(int{ours::kRecordEvent} == int{theirs::kRecordEvent} &&
              int{ours::kRecordStack} == int{theirs::kRecordStack} &&
              int{ours::kRecordCode} == int{theirs::kRecordCode} && int{ours::kRecordText} == int{theirs::kRecordText});

SAME_SIZE(TextRecord, theirs::TextRecord);
SAME_PLACE(TextRecord, theirs::TextRecord, key);
SAME_PLACE(TextRecord, theirs::TextRecord, bytes);
SAME_PLACE(TextRecord, theirs::TextRecord, field);
static_assert(offsetof(ours::Event, torch_allocated) == offsetof(gpumemshim::Event, text));

SAME_SIZE(RingHeader, theirs::RingHeader);
SAME_PLACE(RingHeader, theirs::RingHeader, magic);
SAME_PLACE(RingHeader, theirs::RingHeader, layout_version);
SAME_PLACE(RingHeader, theirs::RingHeader, pid);
SAME_PLACE(RingHeader, theirs::RingHeader, process_start_ticks);
SAME_PLACE(RingHeader, theirs::RingHeader, size_bytes);
SAME_PLACE(RingHeader, theirs::RingHeader, chunk_bytes);
SAME_PLACE(RingHeader, theirs::RingHeader, chunk_count);
SAME_PLACE(RingHeader, theirs::RingHeader, api_count);
SAME_PLACE(RingHeader, theirs::RingHeader, descriptors_offset);
SAME_PLACE(RingHeader, theirs::RingHeader, api_names_offset);
SAME_PLACE(RingHeader, theirs::RingHeader, chunks_offset);
SAME_PLACE(RingHeader, theirs::RingHeader, locked);
SAME_PLACE(RingHeader, theirs::RingHeader, anchor_monotonic_ns);
SAME_PLACE(RingHeader, theirs::RingHeader, anchor_realtime_ns);
SAME_PLACE(RingHeader, theirs::RingHeader, parent_pid);
SAME_PLACE(RingHeader, theirs::RingHeader, program);
SAME_PLACE(RingHeader, theirs::RingHeader, dropped_allocs);
SAME_PLACE(RingHeader, theirs::RingHeader, dropped_frees);
SAME_PLACE(RingHeader, theirs::RingHeader, dropped_definitions);
SAME_PLACE(RingHeader, theirs::RingHeader, truncated_stacks);
SAME_PLACE(RingHeader, theirs::RingHeader, id);
SAME_PLACE(RingHeader, theirs::RingHeader, written_sequence);
SAME_PLACE(RingHeader, theirs::RingHeader, mount_namespace);
SAME_PLACE(RingHeader, theirs::RingHeader, trace_device);
SAME_PLACE(RingHeader, theirs::RingHeader, trace_inode);
SAME_PLACE(RingHeader, theirs::RingHeader, trace_path_bytes);
SAME_PLACE(RingHeader, theirs::RingHeader, moved);
SAME_PLACE(RingHeader, theirs::RingHeader, dead_since_s);
SAME_PLACE(RingHeader, theirs::RingHeader, trace_path);
static_assert(offsetof(ours::RingHeader, id) == ours::kVersion2HeaderBytes);
SAME_SIZE(ReadSlot, theirs::ReadSlot);
SAME_PLACE(ReadSlot, theirs::ReadSlot, packet_sequence);
SAME_PLACE(ReadSlot, theirs::ReadSlot, position);
SAME_SIZE(ChunkDescriptor, theirs::ChunkDescriptor);
SAME_PLACE(ChunkDescriptor, theirs::ChunkDescriptor, committed);
SAME_PLACE(ChunkDescriptor, theirs::ChunkDescriptor, state);
SAME_PLACE(ChunkDescriptor, theirs::ChunkDescriptor, owner_tid);
SAME_PLACE(ChunkDescriptor, theirs::ChunkDescriptor, owner_serial);
SAME_PLACE(ChunkDescriptor, theirs::ChunkDescriptor, number);
SAME_PLACE(ChunkDescriptor, theirs::ChunkDescriptor, thread_name);
SAME_PLACE(ChunkDescriptor, theirs::ChunkDescriptor, read);
SAME_SIZE(RecordHeader, theirs::RecordHeader);
SAME_PLACE(RecordHeader, theirs::RecordHeader, type);
SAME_PLACE(RecordHeader, theirs::RecordHeader, size);
SAME_SIZE(EventRecord, theirs::EventRecord);
SAME_PLACE(EventRecord, theirs::EventRecord, event);
static_assert(ours::kLeastEventBytes == theirs::kLeastEventBytes);
SAME_SIZE(Event, gpumemshim::Event);
SAME_PLACE(Event, gpumemshim::Event, time_ns);
SAME_PLACE(Event, gpumemshim::Event, address);
SAME_PLACE(Event, gpumemshim::Event, size);
SAME_PLACE(Event, gpumemshim::Event, requested_size);
SAME_PLACE(Event, gpumemshim::Event, stream);
SAME_PLACE(Event, gpumemshim::Event, handle);
SAME_PLACE(Event, gpumemshim::Event, stack);
SAME_PLACE(Event, gpumemshim::Event, tag);
SAME_PLACE(Event, gpumemshim::Event, duration_ns);
SAME_PLACE(Event, gpumemshim::Event, result);
SAME_PLACE(Event, gpumemshim::Event, device);
SAME_PLACE(Event, gpumemshim::Event, api);
SAME_PLACE(Event, gpumemshim::Event, kind);
SAME_PLACE(Event, gpumemshim::Event, layer);
SAME_PLACE(Event, gpumemshim::Event, memory);
SAME_SIZE(StackRecord, theirs::StackRecord);
SAME_PLACE(StackRecord, theirs::StackRecord, hash);
SAME_PLACE(StackRecord, theirs::StackRecord, count);
SAME_SIZE(RawFrame, theirs::RawFrame);
SAME_PLACE(RawFrame, theirs::RawFrame, pc);
SAME_PLACE(RawFrame, theirs::RawFrame, instruction);
SAME_PLACE(RawFrame, theirs::RawFrame, flags);
SAME_SIZE(CodeRecord, theirs::CodeRecord);
SAME_PLACE(CodeRecord, theirs::CodeRecord, key);
SAME_PLACE(CodeRecord, theirs::CodeRecord, total_bytes);
SAME_PLACE(CodeRecord, theirs::CodeRecord, offset);
SAME_PLACE(CodeRecord, theirs::CodeRecord, part_bytes);
SAME_SIZE(CodeBlob, theirs::CodeBlob);
SAME_PLACE(CodeBlob, theirs::CodeBlob, first_line);
SAME_PLACE(CodeBlob, theirs::CodeBlob, python_minor);
SAME_PLACE(CodeBlob, theirs::CodeBlob, filename_bytes);
SAME_PLACE(CodeBlob, theirs::CodeBlob, name_bytes);
SAME_PLACE(CodeBlob, theirs::CodeBlob, line_table_bytes);

TEST(RingLayout, BothSidesCallTheSameKindsFrees) {
  for (int kind = 0; kind <= gpumem::trace::EventKind_MAX; ++kind) {
    EXPECT_EQ(gpumem::RingKindIsFree(static_cast<uint8_t>(kind)),
              theirs::IsFree(static_cast<gpumemshim::EventKind>(kind)))
        << kind;
  }
}

}  // namespace
