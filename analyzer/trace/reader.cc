// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "trace/reader.h"

#include <google/protobuf/stubs/logging.h>

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trace/limits.h"

namespace gpumem {
namespace {

constexpr uint32_t kFormatVersion = 2;  // and 1, which lacks chained packets
constexpr absl::string_view kBrokenHeader = "a header is broken";

template <typename Message>
bool Parse(absl::string_view bytes, Message* message, size_t most = kMaxMessage) {
  const google::protobuf::LogSilencer silencer;  // damage is reported by us, once
  if (bytes.size() > most) return false;
  return message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

// Every writer says its version.
bool ParseHeader(absl::string_view bytes, trace::Header* header) {
  return Parse(bytes, header) && header->format_version() != 0;
}

bool IsKnown(const trace::Header& header) {
  return header.format_version() >= 1 && header.format_version() <= kFormatVersion;
}

absl::Status NewerFormat(absl::string_view path, const trace::Header& header) {
  return absl::UnimplementedError(absl::StrCat(
      path, " has trace format ", header.format_version(), ", written by gpumemshim ", header.writer_version(),
      "; this gpumemshim reads format ", kFormatVersion, ". Use the gpumemshim that came with that gpumemshim"));
}

// In a packet of the file, whatever it is packed with.
uint64_t MostEvents(const RawPacket& packet) { return kAlwaysEvents + kMaxEventsPerByte * packet.file_bytes; }

}  // namespace

absl::StatusOr<TraceReader> TraceReader::Open(absl::string_view named) {
  Series series = FindSeries(named);
  const std::string& path = series.files[0].path;
  GPUMEM_ASSIGN_OR_RETURN(PacketReader packets, PacketReader::Open(path));
  RawPacket first;
  const PacketReader::Outcome outcome = packets.Next(&first);
  if (outcome != PacketReader::Outcome::kPacket) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is damaged, and nothing of it can be read: ",
                                                   packets.damage(), ". Copy it again from where it was written"));
  }
  trace::Header header;
  const bool has_header = first.type == PacketType::kHeader && ParseHeader(first.body, &header);
  if (has_header && !IsKnown(header)) return NewerFormat(path, header);
  packets.Seek(0);
  TraceReader reader(std::move(series), std::move(packets), !has_header);
  if (first.type == PacketType::kHeader && !has_header) reader.broken_header_ = first.file_offset;
  return reader;
}

ItemType TraceReader::Damaged(absl::string_view what) {
  packets_.ReportDamage(what);
  return ItemType::kEndOfStream;
}

void TraceReader::NoteGap(uint64_t packets, bool had_events) {
  unsure_ |= had_events;
  gap_pending_ |= had_events;
  if (reading_again_ || section_ != 0) return;
  missing_packets_ += packets;
  if (!in_gap_ && gaps_.size() < kMaxGaps) gaps_.push_back({0, true, 0, last_time_ns_, 0});
  in_gap_ = true;
  gaps_.back().packets += packets;
}

// The section goes on with this time; 0: it does not.
void TraceReader::CloseGap(uint64_t to_ns) {
  if (!std::exchange(in_gap_, false)) return;
  gaps_.back().to_ns = to_ns;
}

// What a packet's number and its count of events say of what is missing before it.
void TraceReader::NotePacket(const RawPacket& packet) {
  if (packet.compressed) return;  // of the packet around it, which was noted
  if (packet.missing != 0) NoteGap(packet.missing, !packet.has_events_before || packet.events_before > events_read_);
  next_sequence_ = packet.sequence + 1;
  if (in_gap_ && !reading_again_) {
    TraceGap& gap = gaps_.back();
    gap.events_known &= packet.has_events_before;
    if (packet.has_events_before) gap.events += packet.events_before - std::min(packet.events_before, events_read_);
  }
  if (packet.has_events_before) events_read_ = packet.events_before;
}

uint64_t TraceReader::missing_events() const {
  uint64_t events = 0;
  for (const TraceGap& gap : gaps_) events += gap.events;
  return events;
}

std::string TraceReader::damage() const {
  const bool is_on_its_way = MayGrow() && packets_.cut_short();  // half a packet
  return !earlier_damage_.empty() ? earlier_damage_ : healed_ || is_on_its_way ? "" : packets_.damage();
}

ItemType TraceReader::StartSection(const RawPacket& packet) {
  trace::Header header;
  if (!ParseHeader(packet.body, &header)) {  // of another process, nobody knows which
    packets_.ReportDamage(kBrokenHeader);
    header.Clear();
    header.set_format_version(kFormatVersion);
  }
  passes_over_ = !IsKnown(header);
  if (passes_over_) return Damaged("a section of another trace format");
  const bool goes_on = GoesOn(header);
  if (goes_on && packet.sequence > next_sequence_) NoteGap(packet.sequence - next_sequence_, true);
  const bool follows = goes_on && header.part().contiguous() && header.part().number() == part_.number() + 1;
  skips_live_snapshot_ = follows && !unsure_;
  if (!goes_on) {
    CloseGap(0);
    section_file_ = file_;
    section_offset_ = packet.file_offset;
    if (started_ && section_++ == 0) first_goes_on_elsewhere_ = NextIsElsewhere();
    unsure_ = gap_pending_ = false;
    events_read_ = header.part().events_before();
    last_time_ns_ = 0;
  }
  started_ = true;
  continued_ = false;
  ended_ = false;
  NotePacket(packet);
  header_ = std::move(header);
  part_ = header_.part();
  if (section_ == 0 && header_.has_part()) parts_.insert(part_.number());
  if (goes_on) return ItemType::kEndOfStream;  // the same process, and ids mean the same
  forget_stacks_ = true;
  return ItemType::kHeader;
}

// The header is that of a later file of the series that is being read.
bool TraceReader::GoesOn(const trace::Header& header) const { return started_ && IsBehind(header.part(), part_); }

bool TraceReader::GoesOn(const RawPacket& packet) {
  trace::Header header;
  return ParseHeader(packet.body, &header) && GoesOn(header);
}

// A header that says nothing and begins no other process: the file's first one, or that of a later file of the series.
bool TraceReader::StandsForHeader(const RawPacket& packet) {
  const bool is_first = file_ == 0 && packet.file_offset == broken_header_;
  trace::Header header;
  if (!(is_first || at_file_start_) || ParseHeader(packet.body, &header)) return false;
  packets_.ReportDamage(kBrokenHeader);
  NotePacket(packet);
  continued_ = false;
  return true;
}

ItemType TraceReader::ParseLiveSnapshot(const RawPacket& packet) {
  if (skips_live_snapshot_) return ItemType::kEndOfStream;
  trace::LiveSnapshot parsed;
  if (!Parse(packet.body, &parsed, kMaxUncompressed)) return Damaged("what was alive at the start is broken");
  const absl::Status status = live_snapshot_.batch.Decode(parsed.events().SerializeAsString(), events_left_);
  if (!status.ok()) return Damaged(absl::StrCat(status.message()));
  events_left_ -= live_snapshot_.batch.count();
  if (parsed.begins()) unsure_ = gap_pending_ = false;
  live_snapshot_.begins = parsed.begins();
  live_snapshot_.lost = parsed.lost();
  live_snapshot_.torch_segments.assign(parsed.torch_segments().begin(), parsed.torch_segments().end());
  return ItemType::kLiveSnapshot;
}

bool TraceReader::OpenFile(size_t index) {
  absl::StatusOr<PacketReader> packets = PacketReader::Open(files()[index].path);
  if (!packets.ok()) return false;
  chain_starts_[file_] = packets_.TakeChainStarts();
  packets_ = *std::move(packets);
  packets_.SetChainStarts(std::move(chain_starts_[index]));
  file_ = index;
  at_file_start_ = true;
  next_ordinal_ = 0;
  if (follows_) inode_ = InodeOf(files()[index].path);
  return true;
}

// On to the next file. Damage ends a file, not the series: the next one tells what is alive.
bool TraceReader::NextFile() {
  if (file_ + 1 >= files().size()) return false;
  if (!packets_.damage().empty()) {
    if (earlier_damage_.empty()) earlier_damage_ = absl::StrCat(files()[file_].path, ": ", packets_.damage());
    if (!reading_again_) earlier_damaged_bytes_ += packets_.damaged_bytes();
    unsure_ = true;
  }
  return OpenFile(file_ + 1);
}

// Parses what a packet says. kEndOfStream: a packet that yields no item.
ItemType TraceReader::ParseItem(const RawPacket& packet) {
  if (packet.type == PacketType::kHeader) return StartSection(packet);
  NotePacket(packet);
  switch (packet.type) {
    case PacketType::kDefinitions: {
      const absl::Status status = stacks_.Add(packet.body);
      return status.ok() ? ItemType::kEndOfStream : Damaged(absl::StrCat(status.message()));
    }
    case PacketType::kEvents: {
      const absl::Status status = batch_.Decode(packet.body, events_left_);
      if (!status.ok()) return Damaged(absl::StrCat(status.message()));
      events_left_ -= batch_.count();
      batch_after_gap_ = std::exchange(gap_pending_, false);
      if (batch_.count() == 0) return ItemType::kEvents;
      CloseGap(batch_.time_ns(0));
      last_time_ns_ = batch_.time_ns(batch_.count() - 1);
      events_read_ += batch_.count();
      return ItemType::kEvents;
    }
    case PacketType::kCounters:
      return Parse(packet.body, &counters_) ? ItemType::kCounters : Damaged("counters are broken");
    case PacketType::kLosses:
      return Parse(packet.body, &losses_) ? ItemType::kLosses : Damaged("losses are broken");
    case PacketType::kCupti:
      return Parse(packet.body, &cupti_) ? ItemType::kCupti : Damaged("what CUPTI said is broken");
    case PacketType::kLiveSnapshot:
      return ParseLiveSnapshot(packet);
    case PacketType::kContinued: {
      continued_ = true;
      trace::Continued continued;
      return Parse(packet.body, &continued) ? ItemType::kEndOfStream : Damaged("the file's last packet is broken");
    }
    case PacketType::kEnd:
      ended_ = true;
      CloseGap(0);
      return Parse(packet.body, &end_) ? ItemType::kEnd : Damaged("the end packet is broken");
    default:
      return ItemType::kEndOfStream;  // of a newer version
  }
}

ItemType TraceReader::SkipSection() {
  RawPacket packet;
  while (packets_.Next(&packet) == PacketReader::Outcome::kPacket) {
    if (packet.type == PacketType::kHeader && StartSection(packet) == ItemType::kHeader)
      return type_ = ItemType::kHeader;
  }
  return type_ = ItemType::kEndOfStream;
}

// The next item of the open file. False: its packets came to an end.
bool TraceReader::NextInFile() {
  RawPacket packet;
  while (packets_.Next(&packet) == PacketReader::Outcome::kPacket) {
    const bool is_header = packet.type == PacketType::kHeader;
    if (is_header && StandsForHeader(packet)) continue;
    at_file_start_ = false;
    if (is_header && !GoesOn(packet)) {
      if (RecoverBefore(packet.file_offset)) {
        NextRecovered();
        return true;
      }
      if (stays_in_section_) {
        type_ = ItemType::kEndOfStream;
        return true;
      }
    }
    if (passes_over_ && !is_header) continue;
    if (!packet.compressed) {
      next_ordinal_ = 0;
      events_left_ = MostEvents(packet);
    }
    place_ = {file_, part_.series(), part_.number(), packet.file_offset, next_ordinal_++, false, 0};
    type_ = ParseItem(packet);
    place_.unsure = unsure_;
    place_.events = events_read_ - (type_ == ItemType::kEvents ? batch_.count() : 0);
    if (type_ != ItemType::kEndOfStream) return true;
  }
  if (const uint64_t missing = packets_.TakeMissing(); missing != 0) NoteGap(missing, true);
  return false;
}

ItemType TraceReader::Next() {
  if (std::exchange(forget_stacks_, false)) stacks_ = StackTable();
  if (in_ring_) return NextRecovered();
  if (!started_ && lacks_header_) {
    started_ = true;
    header_.set_format_version(kFormatVersion);
    return type_ = ItemType::kHeader;
  }
  do {
    if (NextInFile()) return type_;
  } while (!stays_in_section_ && NextFile());
  // A later file of the series tells what was alive at its beginning: nobody looks ahead into it.
  if (MayGrow() || (stays_in_section_ && file_ + 1 < files().size())) return type_ = ItemType::kEndOfStream;
  CloseGap(0);
  if (!EndIsMissing() || !RecoverBefore(kAtTheEnd)) return type_ = ItemType::kEndOfStream;
  healed_ = packets_.cut_short() && (recovery_.read_ring || recovery_.process == ProcessState::kRunning);
  return NextRecovered();
}

bool TraceReader::EndIsMissing() const {
  return started_ && !ended_ && !NextIsElsewhere() && (packets_.damage().empty() || packets_.cut_short());
}

// Turns to what the ring of the section before this place still holds. False: there is nothing to turn to.
bool TraceReader::RecoverBefore(uint64_t place) {
  if (!started_ || ended_ || NextIsElsewhere() || passed_ == place) return false;
  if (recovered_before_ != place) {
    if (!rings_ || rings_file_ != file_) rings_.emplace(files()[file_].path);
    rings_file_ = file_;
    recovery_ = rings_->Recover(section_file_ == file_ ? section_offset_ : 0);
  }
  recovered_before_ = place;
  in_ring_ = true;
  next_recovered_ = 0;
  return true;
}

ItemType TraceReader::NextRecovered() {
  while (next_recovered_ < recovery_.packets.size()) {
    place_ = {file_, part_.series(), part_.number(), kInRing, next_recovered_, unsure_, events_read_};
    const RecoveredPacket& recovered = recovery_.packets[next_recovered_++];
    RawPacket packet;
    packet.type = recovered.type;
    packet.body = recovered.body;
    packet.file_offset = packets_.position();
    packet.compressed = true;  // has no number in the file
    events_left_ = EventBatch::kMaxEvents;
    type_ = ParseItem(packet);
    if (type_ != ItemType::kEndOfStream) return type_;
  }
  if (recovered_before_ == kAtTheEnd) return type_ = ItemType::kEndOfStream;
  in_ring_ = false;
  passed_ = recovered_before_;
  packets_.Seek(passed_);
  return Next();
}

void TraceReader::Seek(const Place& place) {
  in_ring_ = place.packet_offset == kInRing;
  passed_ = kNowhere;
  reading_again_ = true;
  gap_pending_ = false;
  unsure_ = place.unsure;
  events_read_ = place.events;
  if (in_ring_) {
    next_recovered_ = place.ordinal;
    return;
  }
  if (place.file != file_ && !OpenFile(place.file)) return;
  part_.set_series(place.series);
  part_.set_number(place.part);
  packets_.Seek(place.packet_offset);
  forget_stacks_ = false;
  // Walk to the item without parsing those before it; the definitions among them are known already. The first one says
  // how much the packet may hold.
  RawPacket packet;
  for (uint64_t i = 0; i < place.ordinal; ++i) {
    packets_.Next(&packet);
    if (!packet.compressed) events_left_ = MostEvents(packet);
  }
  next_ordinal_ = place.ordinal;
}

}  // namespace gpumem
