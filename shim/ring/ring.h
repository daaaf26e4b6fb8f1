// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The ring: where hooks leave events and the definitions that these refer to, until the writer thread takes them to the
// file.
//
// It is one shared mapping, backed by a file in /dev/shm so that it outlives a kill -9, cut into chunks. A thread owns
// the chunk that it writes to and publishes each record by one release store, so threads share nothing in the steady
// state. docs/ring.md has the argument.
//
// Thread-safety: Record, RecordStack, RecordCode, RecordText, Active and GetStats may be called from any thread at any
// time, also while Start or Stop runs and in a forked child (where the ring is inactive). None allocates, locks, or
// changes errno. Start, Stop and ForgetInChild: one at a time. Signals: a handler that interrupts one of them may call
// it again; the inner record is then dropped and counted. Ownership: the ring copies what it is given. Failure: a
// record that finds no room within kMaxWaitNs, or Config.wait_ns, is dropped and counted.
//
//   ring::Config config;
//   if (!ring::Start(config)) return;
//   if (!seen.Contains(hash) && ring::RecordStack(hash, frames, n)) seen.Insert(hash);
//   Event e{};
//   e.kind = EventKind::kAlloc; e.address = ptr; e.size = bytes; e.stack = hash;
//   ring::Record(e, started_ns);

#ifndef GPUMEM_SHIM_RING_RING_H_
#define GPUMEM_SHIM_RING_RING_H_

#include <cstddef>
#include <cstdint>

#include "shared/ring_layout.h"
#include "shim/base/event.h"

namespace gpumemshim::ring {

using gpumem::format::kFrameCut;
using gpumem::format::kFrameForward;
using gpumem::format::kFrameObjectShift;
using gpumem::format::kFramePython;
using gpumem::format::kMaxCodeBytes;
using gpumem::format::kMaxFrameObject;
using gpumem::format::kMaxFrames;
using gpumem::format::NodeTextKey;
using gpumem::format::RawFrame;

inline constexpr uint64_t kDefaultSizeBytes = uint64_t{64} << 20;
inline constexpr uint64_t kMinSizeBytes = uint64_t{256} << 10;
inline constexpr uint64_t kMaxSizeBytes = gpumem::format::kMaxRingBytes;
inline constexpr uint64_t kMaxWaitNs = 100'000;   // a full ring holds a caller up for no longer than this (wait_ns)
inline constexpr uint32_t kMaxTextBytes = 1024;   // of a mark; what is longer is cut
inline constexpr uint32_t kMaxReadyBytes = 8192;  // of a ready definition

struct Config {
  // At most, in [kMinSizeBytes, kMaxSizeBytes]; less where there is less room (room.h). It begins with first_chunks and
  // grows as it is used.
  uint64_t size_bytes = kDefaultSizeBytes;
  uint32_t first_chunks = 16;
  // How long a caller may wait for room where nothing is to be lost; 0 = kMaxWaitNs.
  uint64_t wait_ns = 0;
  const char* directory = "/dev/shm";  // nullptr: anonymous memory, which dies with the process
  // Where the trace is to be, absolute, copied: the ring lies beside it where `directory` has no room, and what it
  // still holds after a kill is put there (dead_rings.h). May be nullptr.
  const char* trace_path = nullptr;
  // Names of Event.api by index, copied into the mapping so that a recovery can name them. ApiName of base/api.h; may
  // stay nullptr.
  const char* (*api_name)(uint16_t api) = nullptr;
  uint16_t api_count = 0;         // indices below this are asked for
  const char* program = nullptr;  // its name, for a trace that is made from the ring alone; copied
};

// A Python code object. Strings need no terminator. Equal keys mean equal content.
struct RawCode {
  uint64_t key;  // non-zero; content hash or another number that no other code object ever has
  const char* filename;
  uint32_t filename_size;
  const char* name;
  uint32_t name_size;
  const void* line_table;
  uint32_t line_table_size;
  uint32_t first_line;
  uint32_t python_minor;
};

struct Stats {
  uint64_t dropped_allocs;       // everything that is not a free
  uint64_t dropped_frees;        // see IsFree
  uint64_t dropped_definitions;  // RecordStack, RecordCode and RecordText that returned false for want of room
  uint64_t truncated_stacks;     // cut at kMaxFrames
  uint64_t stalled_threads;      // did not finish a record within seconds; their order was no longer waited for
  uint64_t high_bytes;           // most of the mapping that was ever taken at a time
  uint64_t used_bytes;           // taken now
  uint64_t present_bytes;        // of the mapping's chunks, how much has memory now
  uint64_t size_bytes;           // of the mapping, which it may grow to; 0 when not started
};

// Makes the mapping and lets records in. False: no memory at all (the ring stays inactive). A second call while active
// returns true. May follow Stop, and in a forked child it starts a new ring.
bool Start(const Config& config);

// Refuses further records, then waits until no record is half-written (at most timeout_ms). The mapping stays readable
// for the writer.
void Stop(uint32_t timeout_ms);

// For a thread that ends the process where it stands, in a signal handler perhaps: what it was recording when it was
// interrupted will never be whole, and Stop need not wait for it.
void AbandonRecord();

// Removes the ring's file: all that it held is in the trace. After Stop, by the writer.
void Unlink();

// In a forked child: forget the parent's ring without touching it. Needed only where the kernel has no MADV_WIPEONFORK;
// harmless elsewhere.
void ForgetInChild();

// True where a record would be taken. In a forked child always false until it calls Start itself.
bool Active();

// Leaves one event. time_ns is filled in where it is 0 (leave it 0: order between threads rests on it). With
// started_ns, the CLOCK_MONOTONIC time before the real call, duration_ns is filled in from the same clock reading.
// False: dropped and counted, or inactive.
bool Record(Event& event, uint64_t started_ns = 0);

// Defines the frames behind Event.stack, before the first event that uses it (a caller keeps its own set of the hashes
// that it has sent, one for the process or one a thread). Repeats are harmless. False: not taken, so send it again at
// its next use.
bool RecordStack(uint64_t hash, const RawFrame* frames, uint32_t count);

// Defines the code object behind RawFrame.pc, before the first RecordStack that uses it. Repeats and false as above.
bool RecordCode(const RawCode& code);

// Defines the text behind Event.text, before the first event that uses it. No terminator needed. Repeats and false as
// above.
bool RecordText(uint64_t key, const char* text, uint32_t size);

// Leaves a definition that nothing in the ring refers to by a key of its own: one element of trace.proto's Definitions,
// serialized, and the number of its field there. It goes to the file as it is. False as above, and where it is longer
// than kMaxReadyBytes.
bool RecordReady(uint32_t field, const void* message, uint32_t size);

// Refuses records from now on, and takes them again; the reader goes on meanwhile and the mapping stays. Whoever is in
// the middle of a record finishes it. One at a time with Start and Stop. Resume: false where nothing was paused.
void Pause();
bool Resume();

Stats GetStats();

// Has the writer thread begin a pass now. Cheap where it was asked already.
void Wake();
// The writer thread's, between passes: until somebody wakes it, or for so long. May return sooner.
void SleepUntilWoken(uint64_t timeout_ns);
// The writer thread's, once: it does not wait for room that it alone can make.
void BecomeWriter();
// Where rings lie as a rule; "" where this one was not to have a file.
const char* Directory();

// The writer thread's, before each pass: grows a ring that is less than half free, and gives back what was not used for
// a while.
void Maintain(uint64_t now_ns);

// The writer's: the trace has its file, or goes on in this one.
void NameTrace(const char* path);
// The packet of this number, and all before, is whole in the trace.
void MarkWritten(uint64_t packet_sequence);

// Path of the backing file, "" where it is anonymous memory. Valid until the next Start.
const char* Path();

}  // namespace gpumemshim::ring

#endif  // GPUMEM_SHIM_RING_RING_H_
