// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// TraceReader: a trace file as a stream of items: section headers, event batches, counters, losses, ends. Definitions
// are taken into stacks() on the way, before the batch that needs them is returned. EventSource is the seam: whatever
// else can yield items (the ring of a killed process) can be replayed in its place.
//
// Where the trace is a series of files (series.h), any of them stands for all: they are read as if they were one, from
// the oldest on that is still there. What was alive when it began comes first then, as kLiveSnapshot.
//
// Behind the last packet of each process that was killed come the events that wait in its ring (ring_recovery.h), as if
// the file held them; recovery() tells.
//
// Bounded memory apart from the definitions and the ring. Not thread-safe. Damage: PacketReader's rules; where packets
// are missing, the next batch comes behind a gap (after_gap), and gaps() tells what is known of it. A file whose first
// header is lost or says nothing is read with an empty one. A packet whose content cannot be is damage,
// too, and reading goes on behind it.
//
//   GPUMEM_ASSIGN_OR_RETURN(TraceReader reader, TraceReader::Open(path));
//   while (reader.Next() != ItemType::kEndOfStream) if (reader.type() == ItemType::kEvents) Replay(reader.batch());
//   if (!reader.damage().empty()) ...

#ifndef GPUMEM_ANALYZER_TRACE_READER_H_
#define GPUMEM_ANALYZER_TRACE_READER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gpumem/trace.pb.h"
#include "trace/event_batch.h"
#include "trace/packet_reader.h"
#include "trace/process_state.h"
#include "trace/ring/ring_recovery.h"
#include "trace/series.h"
#include "trace/stack_table.h"

namespace gpumem {

enum class ItemType {
  kHeader,  // a new section begins: header() is its process; stacks() still is the section's before, and empty after
            // the next call
  kLiveSnapshot,  // live_snapshot(): what was alive; events before it are not in the stream. Several in a row belong
                  // together
  kEvents,        // batch()
  kCounters,      // counters()
  kLosses,        // losses()
  kCupti,         // cupti()
  kEnd,           // end()
  kEndOfStream,   // no more items: the end of the file, or damage
};

// A part of what was alive at some time.
struct LiveSnapshotBatch {
  EventBatch batch;                      // the events that made it
  std::vector<uint32_t> torch_segments;  // which of them made memory that PyTorch's blocks lie in
  bool begins = false;                   // the first of its set: what was alive before is to be forgotten
  uint64_t lost = 0;                     // things that were alive and are not in it
  bool keeps_other_memory = false;       // it says what PyTorch's allocator held, not what else was alive
};

// Yields the items of one or several processes in order.
class EventSource {
 public:
  virtual ~EventSource() = default;
  virtual ItemType Next() = 0;
  // What the last kHeader, kCounters, kLosses, kCupti and kEnd gave; a batch is valid until the next call of Next.
  virtual const trace::Header& header() const = 0;
  virtual const EventBatch& batch() const = 0;
  // Exchanges the last batch with `other`, so that the caller can keep it past the next call of Next.
  virtual void SwapBatch(EventBatch* other) = 0;
  virtual const LiveSnapshotBatch& live_snapshot() const = 0;
  virtual const trace::Counters& counters() const = 0;
  virtual const trace::Losses& losses() const = 0;
  virtual const trace::Cupti& cupti() const { return trace::Cupti::default_instance(); }
  virtual const trace::End& end() const = 0;
  virtual const StackTable& stacks() const = 0;
};

class TraceReader final : public EventSource {
 public:
  // Names one item of the file, for going back to it.
  struct Place {
    size_t file = 0;
    uint64_t series = 0;
    uint32_t part = 0;  // of the series
    uint64_t packet_offset = 0;
    uint64_t ordinal = 0;  // of the items inside that packet of the file
    bool unsure = false;   // events are missing before it, since what is alive was last known
    uint64_t events = 0;   // of the section before it, and those known to be missing
  };

  // Fails as PacketReader::Open does, and where the first packet is no readable Header or its format is newer than this
  // program.
  static absl::StatusOr<TraceReader> Open(absl::string_view path);

  ItemType Next() override;
  ItemType type() const { return type_; }
  const trace::Header& header() const override { return header_; }
  const EventBatch& batch() const override { return batch_; }
  void SwapBatch(EventBatch* other) override { std::swap(batch_, *other); }
  const LiveSnapshotBatch& live_snapshot() const override { return live_snapshot_; }
  const trace::Counters& counters() const override { return counters_; }
  const trace::Losses& losses() const override { return losses_; }
  const trace::Cupti& cupti() const override { return cupti_; }
  const trace::End& end() const override { return end_; }
  const StackTable& stacks() const override { return stacks_; }
  StackTable TakeStacks() { return std::exchange(stacks_, {}); }
  // Goes on to the next section's header without looking at what lies between: kHeader or kEndOfStream.
  ItemType SkipSection();

  // Of the item that Next returned last; and going on from such a place: Next then returns that item again. Within one
  // section only.
  Place place() const { return place_; }
  void Seek(const Place& place);

  // Shows the batches behind the one that Next returned last, to the section's end or until `look` returns false. All
  // is as before then; batch() is that batch again where it was not swapped away.
  void LookAhead(const std::function<bool(const EventBatch&)>& look);

  // For a trace that is still being written. From now on the end of what is there is the trace's end only once its
  // process has ended; before that, Next says kEndOfStream, and goes on behind a call of Refresh.
  void Follow();
  // Looks at the files again, and at the process. False where the file was replaced, or cut: it is another one now.
  bool Refresh();
  ProcessState process() const { return process_; }  // at the last call of Follow or Refresh
  bool ended() const { return ended_; }              // the section's End was read

  // Of all files.
  uint64_t file_bytes() const { return files().back().bytes_before + files().back().bytes; }
  uint64_t position() const { return files()[file_].bytes_before + packets_.position(); }
  const std::vector<SeriesFile>& files() const { return series_.files; }
  // Of the first section: numbers of the files of the series that were read, each a file of its own or behind the one
  // before in the same file; and whether a file behind the last one exists, but is not at hand.
  const std::set<uint32_t>& parts() const { return parts_; }
  bool goes_on_elsewhere() const { return section_ == 0 ? NextIsElsewhere() : first_goes_on_elsewhere_; }
  uint64_t missing_packets() const { return missing_packets_; }
  // Before the batch that Next returned last packets are missing.
  bool after_gap() const { return batch_after_gap_; }
  // So they are before the next one that it will return.
  bool gap_pending() const { return gap_pending_; }
  // Of the first section, in the order of the file: at most kMaxGaps, the last one stands for all further ones.
  static constexpr size_t kMaxGaps = 256;
  const std::vector<TraceGap>& gaps() const { return gaps_; }
  uint64_t missing_events() const;               // the sum of what is known of the gaps
  uint64_t section() const { return section_; }  // 0 = the file's first
  // Empty where a packet is cut short, but its content was recovered or is being written.
  std::string damage() const;
  // Of the process whose packets came to an end last without an End; empty where there is none.
  const Recovery& recovery() const { return recovery_; }
  // That could not be used.
  uint64_t damaged_bytes() const { return earlier_damaged_bytes_ + (healed_ ? 0 : packets_.damaged_bytes()); }

 private:
  // Place::packet_offset of the items that the ring gave; their ordinal is the index in recovery_.packets.
  static constexpr uint64_t kInRing = UINT64_MAX;
  static constexpr uint64_t kNowhere = UINT64_MAX, kAtTheEnd = UINT64_MAX - 1;

  TraceReader(Series series, PacketReader packets, bool lacks_header)
      : series_(std::move(series)),
        chain_starts_(series_.files.size()),
        packets_(std::move(packets)),
        lacks_header_(lacks_header) {}
  ItemType Damaged(absl::string_view what);
  bool StandsForHeader(const RawPacket& packet);
  ItemType StartSection(const RawPacket& packet);
  bool GoesOn(const trace::Header& header) const;
  bool MayGrow() const { return follows_ && !ended_ && process_ != ProcessState::kEnded; }
  void AddNewFiles();
  bool NextIsElsewhere() const { return continued_ && !series_.next_was_begun; }
  bool GoesOn(const RawPacket& packet);
  ItemType ParseLiveSnapshot(const RawPacket& packet);
  bool OpenFile(size_t index);
  bool NextFile();
  void NoteGap(uint64_t packets, bool had_events);
  void CloseGap(uint64_t to_ns);
  void NotePacket(const RawPacket& packet);
  bool NextInFile();
  ItemType ParseItem(const RawPacket& packet);
  bool EndIsMissing() const;
  bool RecoverBefore(uint64_t place);
  ItemType NextRecovered();

  Series series_;
  size_t file_ = 0;
  std::vector<std::vector<uint64_t>> chain_starts_;  // of the files that are not open
  PacketReader packets_;
  ItemType type_ = ItemType::kEndOfStream;
  trace::Header header_;
  EventBatch batch_;
  LiveSnapshotBatch live_snapshot_;
  trace::Counters counters_;
  trace::Losses losses_;
  trace::Cupti cupti_;
  trace::End end_;
  StackTable stacks_;
  Place place_;
  uint64_t next_ordinal_ = 0;
  uint64_t events_left_ = 0;  // that the packet of the file may still hold
  uint64_t next_sequence_ = 0;
  uint64_t missing_packets_ = 0;
  uint64_t section_ = 0;
  std::vector<TraceGap> gaps_;
  bool in_gap_ = false;           // gaps_.back() has no end yet
  bool batch_after_gap_ = false;  // the last batch
  bool gap_pending_ = false;      // the next batch is
  bool unsure_ = false;           // Place::unsure
  bool passes_over_ = false;      // the section is none that can be read
  bool reading_again_ = false;
  bool stays_in_section_ = false;  // another section's header is the end
  uint64_t events_read_ = 0;       // of the section, and those known to be missing
  uint64_t last_time_ns_ = 0;
  size_t section_file_ = 0;  // in which its header stands, and where
  uint64_t section_offset_ = 0;
  std::optional<RingsOfTrace> rings_;
  size_t rings_file_ = 0;
  Recovery recovery_;
  size_t next_recovered_ = 0;
  std::string earlier_damage_;  // of a file before the last
  uint64_t earlier_damaged_bytes_ = 0;
  trace::Part part_;          // that is being read
  std::set<uint32_t> parts_;  // of the first section
  bool continued_ = false;    // the file read last says that another follows
  bool first_goes_on_elsewhere_ = false;
  bool skips_live_snapshot_ = false;  // the events that made it were read
  bool started_ = false;
  bool lacks_header_ = false;          // the file's first one
  bool at_file_start_ = false;         // of a later file of the series
  uint64_t broken_header_ = kNowhere;  // where the first one is, if it says nothing
  bool ended_ = false;                 // the section's End was read
  // The recovered items stand before the header at this offset; and the header that was passed after them.
  uint64_t recovered_before_ = kNowhere, passed_ = kNowhere;
  bool in_ring_ = false;  // the section's items in the file are through
  bool healed_ = false;
  bool forget_stacks_ = false;
  bool follows_ = false;
  uint64_t inode_ = 0;  // of the open file, where it is followed
  ProcessState process_ = ProcessState::kUnknown;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_TRACE_READER_H_
