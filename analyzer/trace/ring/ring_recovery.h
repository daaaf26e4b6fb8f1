// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What a killed process recorded and could not write any more, taken from the ring that it left behind, as packets that
// belong behind the trace's last one: definitions, event batches, losses. docs/ring.md has the rules and why nothing is
// lost and nothing is found twice.
//
// Recovers for one process of the file (of `cat a b` for either), and only where its End is missing, where it has ended
// for sure, and where the ring that its header names is its own (pid, start time, owner of the file). Everything else
// is a note, never an error. Not thread-safe. Memory: the ring, twice, and the numbers of the trace's stacks.
//
//   const Recovery recovery = RecoverFromRing(path);
//   for (const RecoveredPacket& packet : recovery.packets) ...

#ifndef GPUMEM_ANALYZER_TRACE_RING_RING_RECOVERY_H_
#define GPUMEM_ANALYZER_TRACE_RING_RING_RECOVERY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gpumem/trace.pb.h"
#include "trace/packet_reader.h"
#include "trace/process_state.h"
#include "trace/series.h"

namespace gpumem {

struct RecoveredPacket {
  PacketType type = PacketType::kNone;
  std::string body;  // serialized
};

struct Recovery {
  ProcessState process = ProcessState::kUnknown;
  bool complete = false;          // the trace has its End
  uint64_t recovered_before = 0;  // events that an earlier recovery appended: the ring is not looked at again
  bool read_ring = false;         // so nothing is missing behind the last whole packet, cut or not
  std::string ring_path;          // as the header names it, or beside the trace where it was put there
  // The process is not known to run, its End is missing, and no ring could be read: what it recorded after the last
  // packet, up to 100 ms, is in no number.
  bool end_unknown = false;
  std::string note;     // a sentence where a ring was there and not, or not wholly, read
  uint64_t events = 0;  // in `packets`
  bool is_last = true;  // no other process follows in the file
  std::vector<RecoveredPacket> packets;
  // Where the packets belong: behind so many bytes of the file, from this number on.
  uint64_t whole_bytes = 0;
  uint64_t next_sequence = 0;
};

// What the rings of a file's processes still hold, one process after the other. Each call reads the packets of one
// process and no others, so all of them together read the file once. At most kMaxRings rings are read. Not thread-safe.
class RingsOfTrace {
 public:
  explicit RingsOfTrace(absl::string_view trace_path);
  RingsOfTrace(RingsOfTrace&&) noexcept = default;
  RingsOfTrace& operator=(RingsOfTrace&&) noexcept = default;

  // Of the process whose header stands at this offset of the file: 0 = the first. The next one's stands at whole_bytes.
  Recovery Recover(uint64_t header_offset);

 private:
  std::string path_;
  Series series_;
  std::optional<PacketReader> reader_;
  uint64_t rings_read_ = 0;
};

// Of the last process in the file.
Recovery RecoverFromRing(absl::string_view trace_path);

// From a ring alone, where no trace is at hand: everything that it still holds. `packets` starts with a Header. Fails
// as RingFile::Open does, and where the process still runs.
absl::StatusOr<Recovery> RecoverRingAlone(absl::string_view ring_path);

// A packet as the file holds it: framed, numbered, with its checksum.
std::string FramePacket(const RecoveredPacket& packet, uint64_t sequence);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_TRACE_RING_RING_RECOVERY_H_
