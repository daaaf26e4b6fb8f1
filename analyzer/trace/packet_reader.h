// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// PacketReader: the packets of a trace file, one after the other, checked and decompressed. It knows framing (length,
// sync word, checksum, compression) and nothing of what packets say, so `gpumemshim export packets` and TraceReader
// share it.
//
// Memory is bounded by the largest packet (64 MiB compressed plus 64 MiB decompressed), whatever the file's size. The
// file is read with pread, not mapped: a file that shrinks while it is read is a damaged file, not a crash. Not
// thread-safe; owns its file descriptor.
//
// A file that is not a trace at all fails in Open (exit code 3). Behind damage further in the stream goes on at the
// next whole packet: damage() then says what is wrong and where (exit code 4), and the packets themselves by their
// numbers how many are missing before them. Left out, too, is what is whole but cannot be used: a packet that comes a
// second time or belongs to a process whose header is lost, and one that was compressed with a missing one as its
// dictionary. Next returns kDamaged where nothing whole follows.
//
//   GPUMEM_ASSIGN_OR_RETURN(PacketReader reader, PacketReader::Open(path));
//   RawPacket packet;
//   while (reader.Next(&packet) == PacketReader::Outcome::kPacket) Print(packet);
//   if (!reader.damage().empty()) Warn(reader.damage());

#ifndef GPUMEM_ANALYZER_TRACE_PACKET_READER_H_
#define GPUMEM_ANALYZER_TRACE_PACKET_READER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpumem {

// Field numbers of Packet's oneof `data` in trace.proto. Others are packets of a newer version: to be skipped.
enum class PacketType : uint32_t {
  kNone = 0,
  kHeader = 3,
  kDefinitions = 4,
  kEvents = 5,
  kCounters = 6,
  kLosses = 7,
  kEnd = 8,
  kLiveSnapshot = 10,
  kContinued = 11,
  kCupti = 12,
  kAllocatorState = 13,
};

struct RawPacket {
  PacketType type = PacketType::kNone;
  absl::string_view body;    // the serialized message inside the oneof; valid until the next call of Next
  uint64_t file_offset = 0;  // of the file's packet that it came from
  uint64_t sequence = 0;
  bool compressed = false;  // it came out of a Compressed packet
  // Packets of the process that are missing before this one: lost, or not to be used. Stated once, by the next one.
  uint64_t missing = 0;
  uint64_t file_bytes = 0;  // of the file's packet that it came from
  bool has_events_before = false;
  uint64_t events_before = 0;  // as the packet of the file states it
};

class PacketReader {
 public:
  enum class Outcome { kPacket, kEnd, kDamaged };

  // NotFound, PermissionDenied or InvalidArgument (empty, not a regular file, not a trace); the message names the next
  // step.
  static absl::StatusOr<PacketReader> Open(absl::string_view path);

  PacketReader(PacketReader&&) noexcept;
  PacketReader& operator=(PacketReader&&) noexcept;
  ~PacketReader();

  Outcome Next(RawPacket* packet);

  // Goes on at a place that position() gave between two packets of the file. A packet that was compressed with others
  // as its dictionary needs them read again.
  void Seek(uint64_t position);

  // For a file that is still being written: what was added since, and what was cut off or damaged at its end, is read
  // by the next call of Next. False where the file has become shorter than what was read: it is another one now.
  bool Refresh();

  // Where such chains begin, as far as was read: what another reader of the same file needs for its Seek.
  std::vector<uint64_t> TakeChainStarts();
  void SetChainStarts(std::vector<uint64_t> starts);

  uint64_t position() const;  // offset of the first byte that no returned packet covers
  uint64_t file_bytes() const;
  uint64_t bytes_read() const;  // from the disk so far
  // Empty, or what is wrong, at which byte, what was read before, and where reading went on.
  std::string damage() const;
  uint64_t damaged_bytes() const;  // that could not be used

  // The only damage is that the file ends inside a packet: whoever wrote it was killed, or is at it.
  bool cut_short() const;

  // Packets that were lost and that no later one stated.
  uint64_t TakeMissing();

  // For readers that find the content of a checked packet impossible: it counts as damage, once a packet of the file.
  void ReportDamage(absl::string_view what);

 private:
  struct State;
  explicit PacketReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_TRACE_PACKET_READER_H_
