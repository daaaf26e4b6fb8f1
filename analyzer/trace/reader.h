// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// TraceReader: a trace file as a stream of items: section headers, event batches, counters, losses, ends. Definitions
// are taken into stacks() on the way, before the batch that needs them is returned. EventSource is the seam: whatever
// else can yield items (the ring of a killed process) can be replayed in its place.
//
// Where the trace is a series of files (series.h), any of them stands for all: they are read as if they were one, from
// the oldest on that is still there. What was alive when it began comes first then, as kCarried.
//
// Behind the last packet of each process that was killed come the events that wait in its ring (ring_recovery.h), as if
// the file held them; recovery() tells.
//
// Bounded memory apart from the definitions and the ring. Not thread-safe. Damage: PacketReader's rules.
//
//   GPUMEM_ASSIGN_OR_RETURN(TraceReader reader, TraceReader::Open(path));
//   while (reader.Next() != ItemType::kEndOfStream) if (reader.type() == ItemType::kEvents) Replay(reader.batch());
//   if (!reader.damage().empty()) ...

#ifndef GPUMEM_ANALYZER_TRACE_READER_H_
#define GPUMEM_ANALYZER_TRACE_READER_H_

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gpumem/trace.pb.h"
#include "trace/event_batch.h"
#include "trace/packet_reader.h"
#include "trace/ring_recovery.h"
#include "trace/series.h"
#include "trace/stack_table.h"

namespace gpumem {

enum class ItemType {
  kHeader,    // a new section begins: header() is its process; stacks() still is the section's before, and empty after
              // the next call
  kCarried,   // carried(): what was alive; events before it are not in the stream. Several in a row belong together
  kEvents,    // batch()
  kCounters,  // counters()
  kLosses,    // losses()
  kEnd,       // end()
  kEndOfStream,  // no more items: the end of the file, or damage
};

// A part of what was alive at some time.
struct CarriedBatch {
  EventBatch batch;                      // the events that made it
  std::vector<uint32_t> torch_segments;  // which of them made memory that PyTorch's blocks lie in
  bool begins = false;                   // the first of its set: what was alive before is to be forgotten
  uint64_t lost = 0;                     // things that were alive and are not in it
};

// Yields the items of one or several processes in order.
class EventSource {
 public:
  virtual ~EventSource() = default;
  virtual ItemType Next() = 0;
  // What the last kHeader, kCounters, kLosses and kEnd gave; a batch is valid until the next call of Next.
  virtual const trace::Header& header() const = 0;
  virtual const EventBatch& batch() const = 0;
  // Exchanges the last batch with `other`, so that the caller can keep it past the next call of Next.
  virtual void SwapBatch(EventBatch* other) = 0;
  virtual const CarriedBatch& carried() const = 0;
  virtual const trace::Counters& counters() const = 0;
  virtual const trace::Losses& losses() const = 0;
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
  };

  // Fails as PacketReader::Open does, and where the first packet is no readable Header or its format is newer than this
  // program.
  static absl::StatusOr<TraceReader> Open(absl::string_view path);

  ItemType Next() override;
  ItemType type() const { return type_; }
  const trace::Header& header() const override { return header_; }
  const EventBatch& batch() const override { return batch_; }
  void SwapBatch(EventBatch* other) override { std::swap(batch_, *other); }
  const CarriedBatch& carried() const override { return carried_; }
  const trace::Counters& counters() const override { return counters_; }
  const trace::Losses& losses() const override { return losses_; }
  const trace::End& end() const override { return end_; }
  const StackTable& stacks() const override { return stacks_; }
  StackTable TakeStacks() { return std::exchange(stacks_, {}); }
  // Goes on to the next section's header without looking at what lies between: kHeader or kEndOfStream.
  ItemType SkipSection();

  // Of the item that Next returned last; and going on from such a place: Next then returns that item again. Within one
  // section only.
  Place place() const { return place_; }
  void Seek(const Place& place);

  // Of all files.
  uint64_t file_bytes() const { return files().back().bytes_before + files().back().bytes; }
  uint64_t position() const { return files()[file_].bytes_before + packets_.position(); }
  const std::vector<SeriesFile>& files() const { return series_.files; }
  // Of the first section: numbers of the files of the series that were read, each a file of its own or behind the one
  // before in the same file; and whether a file behind the last one exists, but is not at hand.
  const std::set<uint32_t>& parts() const { return parts_; }
  bool goes_on_elsewhere() const { return section_ == 0 ? NextIsElsewhere() : first_goes_on_elsewhere_; }
  uint64_t missing_packets() const { return missing_packets_; }
  uint64_t section() const { return section_; }  // 0 = the file's first
  // Empty where a packet is cut short, but its content was recovered or is being written.
  const std::string& damage() const {
    return !earlier_damage_.empty() ? earlier_damage_ : healed_ ? no_damage_ : packets_.damage();
  }
  // Of the process whose packets came to an end last without an End; empty where there is none.
  const Recovery& recovery() const { return recovery_; }
  // Bytes from the first damage on; 0 without damage.
  uint64_t damaged_bytes() const { return damage().empty() ? 0 : file_bytes() - damage_offset_; }

 private:
  // Place::packet_offset of the items that the ring gave; their ordinal is the index in recovery_.packets.
  static constexpr uint64_t kInRing = UINT64_MAX;
  static constexpr uint64_t kNowhere = UINT64_MAX, kAtTheEnd = UINT64_MAX - 1;

  TraceReader(Series series, PacketReader packets)
      : series_(std::move(series)), chain_starts_(series_.files.size()), packets_(std::move(packets)) {}
  ItemType Damaged(const RawPacket& packet, absl::string_view what);
  ItemType StartSection(const RawPacket& packet);
  bool GoesOn(const trace::Header& header) const;
  bool NextIsElsewhere() const { return continued_ && !series_.next_was_begun; }
  bool GoesOn(const RawPacket& packet);
  ItemType ParseCarried(const RawPacket& packet);
  bool OpenFile(size_t index);
  bool NextFile();
  void CountSequence(const RawPacket& packet);
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
  CarriedBatch carried_;
  trace::Counters counters_;
  trace::Losses losses_;
  trace::End end_;
  StackTable stacks_;
  Place place_;
  uint64_t next_ordinal_ = 0;
  uint64_t next_sequence_ = 0;
  uint64_t missing_packets_ = 0;
  uint64_t section_ = 0;
  uint64_t damage_offset_ = 0;
  Recovery recovery_;
  size_t next_recovered_ = 0;
  std::string no_damage_;
  std::string earlier_damage_;  // of a file before the last
  trace::Part part_;            // that is being read
  std::set<uint32_t> parts_;    // of the first section
  bool continued_ = false;      // the file read last says that another follows
  bool first_goes_on_elsewhere_ = false;
  bool skips_carried_ = false;  // the events that made it were read
  bool started_ = false;
  bool ended_ = false;  // the section's End was read
  // The recovered items stand before the header at this offset; and the header that was passed after them.
  uint64_t recovered_before_ = kNowhere, passed_ = kNowhere;
  bool in_ring_ = false;  // the section's items in the file are through
  bool healed_ = false;
  bool forget_stacks_ = false;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_TRACE_READER_H_
