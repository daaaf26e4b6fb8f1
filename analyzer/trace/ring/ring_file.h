// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// RingFile: the ring that a killed process left behind, read and checked. Everything in it is hostile: sizes, counts
// and offsets are held against the file before they are used, and a broken chunk ends where it breaks.
//
// Not thread-safe. Owns its copy of the file (8 MiB at most as a rule, never more than 1 GiB), so nothing that others
// do to the file matters later.
//
//   GPUMEM_ASSIGN_OR_RETURN(RingFile ring, RingFile::Open(path));
//   const RingContents contents = ring.Read(last_whole_packet);

#ifndef GPUMEM_ANALYZER_TRACE_RING_RING_FILE_H_
#define GPUMEM_ANALYZER_TRACE_RING_RING_FILE_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shared/ring_layout.h"
#include "trace/process_state.h"

namespace gpumem {

struct RingCode {
  std::string filename, name, line_table;
  uint32_t first_line = 0, python_minor = 0;
};

// What one thread left.
struct RingThread {
  uint32_t tid = 0;
  std::string name;
  std::vector<format::Event> events;  // that the trace lacks, in the thread's order
  // Of a code object whose last parts were not read yet; they follow in the same thread's records.
  struct PartialCode {
    uint64_t key = 0;
    std::string bytes;
  } partial_code;
};

struct RingContents {
  std::map<uint32_t, RingThread> threads;  // by serial: trace.proto's Thread.id
  // Definitions by the numbers that records name them by; also of what the trace has already.
  absl::flat_hash_map<uint64_t, std::vector<format::RawFrame>> stacks;  // innermost first
  absl::flat_hash_map<uint64_t, RingCode> codes;
  absl::flat_hash_map<uint64_t, std::string> texts;
  std::vector<std::pair<uint32_t, std::string>> ready;  // field of trace.proto's Definitions, and one element of it
  std::vector<std::string> api_names;                   // by Event.api
  uint64_t broken_chunks = 0;
  bool was_read = false;  // some of it went to a trace
};

// Whether the process that has this ring still runs, by the lock that it holds on the file; kUnknown where there is no
// such file or it says nothing. Holds where process ids do not: in another PID namespace, and after an exec.
ProcessState StateOfRing(absl::string_view path, uint32_t pid, uint64_t start_ticks);

// The name, without a folder, that a ring has or had while its process ran; since version 3 of the layout.
std::string NameOfRing(const format::RingHeader& header);

// Whether `name` is that one, or the one of recorders that were built when the program was still called gpumem.
bool IsNameOfRing(absl::string_view name, const format::RingHeader& header);

class RingFile {
 public:
  // NotFound, PermissionDenied, or InvalidArgument where it is not a ring of a version known here.
  static absl::StatusOr<RingFile> Open(absl::string_view path);
  // As Open, for header() and IsEmpty() alone: no chunk is read. A ring is 64 MiB.
  static absl::StatusOr<RingFile> Peek(absl::string_view path);

  const format::RingHeader& header() const { return header_; }
  uint32_t owner_uid() const { return owner_uid_; }

  // What a trace lacks whose last whole packet has this number; 0 = there is no trace.
  RingContents Read(uint64_t last_sequence) const;

  // No record, no loss and no trace: nobody will ask for it.
  bool IsEmpty() const;
  // The ring as it is put beside its trace: the chunks in use, or none where the trace has all that is in them.
  std::string CopyOfUsed() const;

 private:
  RingFile() = default;
  static absl::StatusOr<RingFile> OpenUpTo(absl::string_view path, bool whole);
  std::string Check(uint64_t file_bytes) const;
  std::vector<std::pair<uint32_t, format::ChunkDescriptor>> UsedChunks() const;
  bool HasLosses() const;
  bool ReadChunk(const format::ChunkDescriptor& chunk, uint32_t index, uint64_t last_sequence,
                 RingContents* contents) const;

  format::RingHeader header_{};
  uint32_t owner_uid_ = 0;
  std::string bytes_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_TRACE_RING_RING_FILE_H_
