// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "trace/reader.h"

#include <google/protobuf/stubs/logging.h>

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace gpumem {
namespace {

constexpr uint32_t kFormatVersion = 2;  // and 1, which lacks chained packets

template <typename Message>
bool Parse(absl::string_view bytes, Message* message) {
  const google::protobuf::LogSilencer silencer;  // damage is reported by us, once
  return message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

bool IsKnown(const trace::Header& header) {
  return header.format_version() >= 1 && header.format_version() <= kFormatVersion;
}

absl::Status NewerFormat(absl::string_view path, const trace::Header& header) {
  return absl::UnimplementedError(absl::StrCat(
      path, " has trace format ", header.format_version(), ", written by gpumemshim ", header.writer_version(),
      "; this gpumem reads format ", kFormatVersion, ". Use the gpumem that came with that gpumemshim"));
}

}  // namespace

absl::StatusOr<TraceReader> TraceReader::Open(absl::string_view named) {
  Series series = FindSeries(named);
  const std::string& path = series.files[0].path;
  GPUMEM_ASSIGN_OR_RETURN(PacketReader packets, PacketReader::Open(path));
  RawPacket first;
  const PacketReader::Outcome outcome = packets.Next(&first);
  if (outcome == PacketReader::Outcome::kDamaged) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is damaged at its very start, so nothing of it can be read: ", packets.damage(),
                     ". Copy it again from where it was written"));
  }
  trace::Header header;
  if (first.type != PacketType::kHeader || !Parse(first.body, &header)) {
    return absl::InvalidArgumentError(absl::StrCat(path,
                                                   " is not a whole gpumem trace: it does not start with a header. "
                                                   "Copy it again from where it was written"));
  }
  if (!IsKnown(header)) return NewerFormat(path, header);
  packets.Seek(0);
  return TraceReader(std::move(series), std::move(packets));
}

ItemType TraceReader::Damaged(const RawPacket& packet, absl::string_view what) {
  packets_.ReportDamage(what);
  damage_offset_ = files()[file_].bytes_before + packet.file_offset;
  return ItemType::kEndOfStream;
}

// Counts the numbers that are missing before this packet. Those of a new section start again from its header's 0.
void TraceReader::CountSequence(const RawPacket& packet) {
  if (packet.compressed) return;  // has the number of the packet around it, which was counted
  if (packet.sequence > next_sequence_) missing_packets_ += packet.sequence - next_sequence_;
  next_sequence_ = packet.sequence + 1;
}

ItemType TraceReader::StartSection(const RawPacket& packet) {
  trace::Header header;
  if (!Parse(packet.body, &header)) return Damaged(packet, "a header is broken");
  if (!IsKnown(header)) return Damaged(packet, "a section of another trace format");
  const bool goes_on = GoesOn(header);
  skips_carried_ = goes_on && header.part().contiguous() && header.part().number() == part_.number() + 1;
  if (!goes_on) {
    if (started_ && section_++ == 0) first_goes_on_elsewhere_ = NextIsElsewhere();
    next_sequence_ = header.has_part() ? packet.sequence : 0;
  }
  started_ = true;
  continued_ = false;
  ended_ = false;
  CountSequence(packet);
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
  return Parse(packet.body, &header) && GoesOn(header);
}

ItemType TraceReader::ParseCarried(const RawPacket& packet) {
  if (skips_carried_) return ItemType::kEndOfStream;
  trace::Carried parsed;
  if (!Parse(packet.body, &parsed)) return Damaged(packet, "what was alive at the start is broken");
  const absl::Status status = carried_.batch.Decode(parsed.events().SerializeAsString());
  if (!status.ok()) return Damaged(packet, absl::StrCat(status.message()));
  carried_.begins = parsed.begins();
  carried_.lost = parsed.lost();
  carried_.torch_segments.assign(parsed.torch_segments().begin(), parsed.torch_segments().end());
  return ItemType::kCarried;
}

bool TraceReader::OpenFile(size_t index) {
  absl::StatusOr<PacketReader> packets = PacketReader::Open(files()[index].path);
  if (!packets.ok()) return false;
  chain_starts_[file_] = packets_.TakeChainStarts();
  packets_ = *std::move(packets);
  packets_.SetChainStarts(std::move(chain_starts_[index]));
  file_ = index;
  next_ordinal_ = 0;
  return true;
}

// On to the next file. Damage ends a file, not the series: the next one tells what is alive.
bool TraceReader::NextFile() {
  if (file_ + 1 >= files().size()) return false;
  if (!packets_.damage().empty() && earlier_damage_.empty())
    earlier_damage_ = absl::StrCat(files()[file_].path, ": ", packets_.damage());
  return OpenFile(file_ + 1);
}

// Parses what a packet says. kEndOfStream with no damage: a packet that yields no item.
ItemType TraceReader::ParseItem(const RawPacket& packet) {
  if (packet.type == PacketType::kHeader) return StartSection(packet);
  if (!started_) return Damaged(packet, "a packet before the first header");
  CountSequence(packet);
  switch (packet.type) {
    case PacketType::kDefinitions: {
      const absl::Status status = stacks_.Add(packet.body);
      return status.ok() ? ItemType::kEndOfStream : Damaged(packet, absl::StrCat(status.message()));
    }
    case PacketType::kEvents: {
      const absl::Status status = batch_.Decode(packet.body);
      return status.ok() ? ItemType::kEvents : Damaged(packet, absl::StrCat(status.message()));
    }
    case PacketType::kCounters:
      return Parse(packet.body, &counters_) ? ItemType::kCounters : Damaged(packet, "counters are broken");
    case PacketType::kLosses:
      return Parse(packet.body, &losses_) ? ItemType::kLosses : Damaged(packet, "losses are broken");
    case PacketType::kCarried:
      return ParseCarried(packet);
    case PacketType::kContinued:
      continued_ = true;
      return ItemType::kEndOfStream;
    case PacketType::kEnd:
      ended_ = true;
      return Parse(packet.body, &end_) ? ItemType::kEnd : Damaged(packet, "the end packet is broken");
    default:
      return ItemType::kEndOfStream;  // of a newer version
  }
}

ItemType TraceReader::SkipSection() {
  RawPacket packet;
  PacketReader::Outcome outcome;
  while ((outcome = packets_.Next(&packet)) == PacketReader::Outcome::kPacket) {
    if (packet.type == PacketType::kHeader && StartSection(packet) == ItemType::kHeader)
      return type_ = ItemType::kHeader;
  }
  if (outcome == PacketReader::Outcome::kDamaged && damage_offset_ == 0) damage_offset_ = position();
  return type_ = ItemType::kEndOfStream;
}

ItemType TraceReader::Next() {
  if (std::exchange(forget_stacks_, false)) stacks_ = StackTable();
  RawPacket packet;
  PacketReader::Outcome outcome;
  if (in_ring_) return NextRecovered();
  do {
    while ((outcome = packets_.Next(&packet)) == PacketReader::Outcome::kPacket) {
      if (packet.type == PacketType::kHeader && !GoesOn(packet) && RecoverBefore(packet.file_offset))
        return NextRecovered();
      if (!packet.compressed) next_ordinal_ = 0;
      place_ = {file_, part_.series(), part_.number(), packet.file_offset, next_ordinal_++};
      type_ = ParseItem(packet);
      if (type_ != ItemType::kEndOfStream) return type_;
      if (!packets_.damage().empty()) break;
    }
    if (!packets_.damage().empty() && damage_offset_ == 0) damage_offset_ = position();
  } while (NextFile());
  if (!EndIsMissing() || !RecoverBefore(kAtTheEnd)) return type_ = ItemType::kEndOfStream;
  healed_ = recovery_.read_ring || recovery_.process == ProcessState::kRunning;
  return NextRecovered();
}

bool TraceReader::EndIsMissing() const {
  return started_ && !ended_ && !NextIsElsewhere() && (packets_.damage().empty() || packets_.cut_short());
}

// Turns to what the ring of the section before this place still holds. False: there is nothing to turn to.
bool TraceReader::RecoverBefore(uint64_t place) {
  if (!started_ || ended_ || NextIsElsewhere() || passed_ == place) return false;
  if (recovered_before_ != place) recovery_ = RecoverFromRing(files()[file_].path, section_);
  recovered_before_ = place;
  in_ring_ = true;
  next_recovered_ = 0;
  return true;
}

ItemType TraceReader::NextRecovered() {
  while (next_recovered_ < recovery_.packets.size()) {
    place_ = {file_, part_.series(), part_.number(), kInRing, next_recovered_};
    const RecoveredPacket& recovered = recovery_.packets[next_recovered_++];
    RawPacket packet;
    packet.type = recovered.type;
    packet.body = recovered.body;
    packet.file_offset = packets_.position();
    packet.compressed = true;  // has no number in the file
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
  if (in_ring_) {
    next_recovered_ = place.ordinal;
    return;
  }
  if (place.file != file_ && !OpenFile(place.file)) return;
  part_.set_series(place.series);
  part_.set_number(place.part);
  packets_.Seek(place.packet_offset);
  forget_stacks_ = false;
  // Walk to the item without parsing those before it; the definitions among them are known already.
  RawPacket packet;
  for (uint64_t i = 0; i < place.ordinal; ++i) packets_.Next(&packet);
  next_ordinal_ = place.ordinal;
}

}  // namespace gpumem
