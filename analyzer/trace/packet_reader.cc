// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "trace/packet_reader.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "gpumem/trace.pb.h"
#include "trace/file_window.h"
#include "trace/packet_frame.h"
#include "trace/wire.h"

namespace gpumem {
namespace {

constexpr size_t kDictionaryBytes = 64 << 10;
// A file whose first packet is gone is looked through so far for another one before it counts as no trace.
constexpr uint64_t kSearchedStart = 64u << 20;

bool IsPayload(uint32_t field) {
  return field == trace::Packet::kDefinitionsFieldNumber || field == trace::Packet::kEventsFieldNumber ||
         field == trace::Packet::kCountersFieldNumber || field == trace::Packet::kLossesFieldNumber ||
         field == trace::Packet::kLiveSnapshotFieldNumber || field == trace::Packet::kCuptiFieldNumber ||
         field == trace::Packet::kAllocatorStateFieldNumber;
}

bool IsData(uint32_t field) {
  return field >= trace::Packet::kHeaderFieldNumber && field < trace::Packet::kChecksumFieldNumber;
}

}  // namespace

struct PacketReader::State {
  explicit State(FileWindow file) : window(std::move(file)) {}

  enum class Use { kTake, kPassOver };

  void NoteDamage(uint64_t from, uint64_t to, absl::string_view what);
  void LosePacket(absl::string_view what);
  bool NextInner(RawPacket* packet);
  Outcome NextOuter(RawPacket* packet);
  Outcome SkipDamage(const PacketFrame& frame);
  std::string ParseFields(absl::string_view content, RawPacket* packet);
  Use Place(const RawPacket& packet);
  std::string Unpack(absl::string_view compressed);

  FileWindow window;
  PacketSearch search;
  uint64_t offset = 0;         // of the next packet of the file
  uint64_t packet_offset = 0;  // of the packet returned last
  RawPacket outer;             // the packet that `inner` came from: its number and what it says of itself
  uint64_t packets = 0;

  // Of the section that is being read.
  bool number_known = true;  // next_number is; not behind a Seek
  uint64_t next_number = 0;  // that the next packet should have
  uint32_t section = 0;      // 0 = not known
  uint32_t packet_section = 0;
  bool ended = false;    // its End was read
  uint64_t missing = 0;  // packets missing before the next one

  std::string damage;  // the first
  uint64_t damaged_places = 0, damaged_bytes = 0, went_on = 0;
  uint64_t last_damage_to = 0;
  uint64_t read_to = 0;        // what lies before was read once already, and its damage noted
  bool again = false;          // it is being read again
  uint64_t judged_to = 0;      // the content of packets before was found impossible, where it is, and that was noted
  bool is_impossible = false;  // that of the packet returned last was
  bool cut_short = false;
  bool at_end = false;  // nothing whole follows
  // As it was before the end that nothing whole follows: a packet may still be on its way there (Refresh).
  struct Damage {
    std::string text;
    uint64_t places = 0, bytes = 0, went_on = 0, last_to = 0, read_to = 0;
  };
  std::optional<Damage> before_end;

  std::string dictionary;              // of the next chained packet
  bool chain_broken = false;           // it lacks a packet that is missing
  std::vector<uint64_t> chain_starts;  // offsets of the packets that need none, ascending

  std::string inner;  // the decompressed Trace that Next walks through
  size_t inner_position = 0;
};

PacketReader::PacketReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
PacketReader::PacketReader(PacketReader&&) noexcept = default;
PacketReader& PacketReader::operator=(PacketReader&&) noexcept = default;
PacketReader::~PacketReader() = default;

absl::StatusOr<PacketReader> PacketReader::Open(absl::string_view path) {
  GPUMEM_ASSIGN_OR_RETURN(FileWindow window, FileWindow::Open(path));
  if (window.file_bytes() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        path,
        " is empty: the traced program wrote nothing. Was it started with the preload, and did it use CUDA? "
        "`gpumemshim doctor` checks the set-up"));
  }
  PacketSearch search;
  if (!BeginsLikeTrace(&window) && search.Next(&window, 0, kSearchedStart) == PacketSearch::kNone) {
    return absl::InvalidArgumentError(
        absl::StrCat(path,
                     " is not a gpumemshim trace (it holds no trace packet). Traces are named *.gmtrace; "
                     "`gpumemshim run -- COMMAND` makes one"));
  }
  return PacketReader(std::make_unique<State>(std::move(window)));
}

// The bytes of the file from `from` to `to` are of no use.
void PacketReader::State::NoteDamage(uint64_t from, uint64_t to, absl::string_view what) {
  if (again) return;
  damaged_bytes += to - from;
  const uint64_t before = std::exchange(last_damage_to, to);
  const bool goes_on = damaged_places > 0 && from == before;
  if (!goes_on && damaged_places++ == 0) {
    damage = absl::StrCat(what, " at byte ", from, " of ", window.file_bytes(), "; ", packets,
                          packets == 1 ? " packet" : " packets", " before it (", from, " bytes) were read");
  }
  if (damaged_places == 1) went_on = to;
}

// What is left of the packet that was read last is passed over.
void PacketReader::State::LosePacket(absl::string_view what) {
  NoteDamage(packet_offset, offset, what);
  ++missing;
  inner.clear();
  inner_position = 0;
}

// Takes the next packet out of the decompressed payload. False: there is none, or what is left is broken.
bool PacketReader::State::NextInner(RawPacket* packet) {
  if (inner_position >= inner.size()) return false;
  const absl::string_view rest = absl::string_view(inner).substr(inner_position);
  WireReader reader(rest);
  WireField field;
  const bool framed =
      reader.Next(&field) && field.number == trace::Trace::kPacketFieldNumber && field.type == WireType::kBytes;
  if (framed) inner_position += static_cast<size_t>(reader.position() - rest.data());
  *packet = outer;
  packet->compressed = true;
  packet->missing = 0;
  WireReader fields(framed ? field.bytes : absl::string_view());
  bool broken = !framed;
  for (WireField data; !broken && fields.Next(&data);) {
    if (!IsPayload(data.number)) {
      if (!IsData(data.number) || data.number > trace::Packet::kCompressedFieldNumber) continue;
      LosePacket("a compressed packet holds what must not be compressed");
      return false;
    }
    broken = data.type != WireType::kBytes || packet->type != PacketType::kNone;
    packet->type = static_cast<PacketType>(data.number);
    packet->body = data.bytes;
  }
  if (broken || !fields.ok()) {
    LosePacket("the content of a compressed packet is broken");
    return false;
  }
  return true;
}

// Decompresses into `inner`. Returns what is wrong, or "".
std::string PacketReader::State::Unpack(absl::string_view compressed) {
  uint64_t codec = 0;
  uint64_t size = 0;
  absl::string_view payload;
  WireReader reader(compressed);
  for (WireField field; reader.Next(&field);) {
    if (field.number == trace::Compressed::kCodecFieldNumber && field.type == WireType::kVarint) codec = field.varint;
    if (field.number == trace::Compressed::kUncompressedSizeFieldNumber && field.type == WireType::kVarint)
      size = field.varint;
    if (field.number == trace::Compressed::kPayloadFieldNumber && field.type == WireType::kBytes) payload = field.bytes;
  }
  if (!reader.ok()) return "a compressed packet is broken";
  inner_position = 0;
  if (codec != trace::CODEC_LZ4_CHAINED) {
    dictionary.clear();
    chain_broken = false;
    if (chain_starts.empty() || chain_starts.back() < packet_offset) chain_starts.push_back(packet_offset);
  } else if (chain_broken) {
    return "a packet that cannot be unpacked without a missing one before it";
  }
  const std::string wrong = Decompress(codec, payload, size, dictionary, &inner);
  chain_broken = !wrong.empty();
  if (chain_broken) return wrong;
  if (inner.size() >= kDictionaryBytes) {
    dictionary.assign(inner, inner.size() - kDictionaryBytes);
  } else {
    dictionary += inner;
    if (dictionary.size() > kDictionaryBytes) dictionary.erase(0, dictionary.size() - kDictionaryBytes);
  }
  return "";
}

// Returns what is wrong, or "". Unknown fields are skipped.
std::string PacketReader::State::ParseFields(absl::string_view content, RawPacket* packet) {
  *packet = RawPacket{};
  packet->file_offset = packet_offset;
  packet_section = 0;
  WireReader reader(content);
  for (WireField field; reader.Next(&field);) {
    if (field.type == WireType::kVarint && field.number == trace::Packet::kSequenceFieldNumber)
      packet->sequence = field.varint;
    if (field.type == WireType::kFixed32 && field.number == trace::Packet::kSectionFieldNumber)
      packet_section = static_cast<uint32_t>(field.varint);
    if (field.type == WireType::kVarint && field.number == trace::Packet::kEventsBeforeFieldNumber) {
      packet->has_events_before = true;
      packet->events_before = field.varint;
    }
    if (!IsData(field.number)) continue;
    if (field.type != WireType::kBytes || packet->type != PacketType::kNone) return "a packet is broken";
    packet->type = static_cast<PacketType>(field.number);
    packet->body = field.bytes;
  }
  return reader.ok() ? "" : "a packet is broken";
}

// Whether the packet, by its number, goes on with what was read; and how many are missing before it.
PacketReader::State::Use PacketReader::State::Place(const RawPacket& packet) {
  const bool is_header = packet.type == PacketType::kHeader;
  absl::string_view wrong;
  if (is_header) {
    ended = false;
    section = packet_section;
  } else if (ended) {
    wrong = "a packet behind the end of its process's trace";
  } else if (packet_section != 0 && section != 0 && packet_section != section) {
    wrong = "a packet of a process whose header is missing";
  } else if (number_known && packet.sequence < next_number) {
    wrong = "a packet that comes a second time, or at the wrong place,";
  }
  if (!wrong.empty()) {
    NoteDamage(packet_offset, offset, wrong);
    return Use::kPassOver;
  }
  if (section == 0) section = packet_section;
  if (!is_header && number_known && packet.sequence > next_number) {
    NoteDamage(packet_offset, packet_offset, "packets are missing");
    missing += packet.sequence - next_number;
    chain_broken = true;
  }
  number_known = true;
  next_number = packet.sequence + 1;
  ended = packet.type == PacketType::kEnd;
  return Use::kTake;
}

// On to the next whole packet, or to the end.
PacketReader::Outcome PacketReader::State::SkipDamage(const PacketFrame& frame) {
  const bool cut = frame.state == FrameState::kCutShort;
  const absl::string_view what = cut ? "the last packet is cut short" : frame.wrong;
  const uint64_t next = search.Next(&window, offset + 1);
  if (next != PacketSearch::kNone) {
    NoteDamage(offset, next, cut ? "a packet's length is broken" : what);
    offset = next;
    read_to = std::max(read_to, offset);
    return Outcome::kPacket;
  }
  if (!again) {
    cut_short = cut && damaged_places == 0;
    before_end = Damage{damage, damaged_places, damaged_bytes, went_on, last_damage_to, read_to};
  }
  NoteDamage(offset, window.file_bytes(), what);
  at_end = true;
  read_to = window.file_bytes();
  return Outcome::kDamaged;
}

PacketReader::Outcome PacketReader::State::NextOuter(RawPacket* packet) {
  for (;;) {
    again = offset < read_to;
    const PacketFrame frame = ReadFrame(&window, offset);
    if (frame.state == FrameState::kEnd) return Outcome::kEnd;
    if (frame.state != FrameState::kWhole) {
      if (SkipDamage(frame) != Outcome::kPacket) return Outcome::kDamaged;
      continue;
    }
    packet_offset = offset;
    is_impossible = false;
    offset += frame.bytes;
    read_to = std::max(read_to, offset);
    const std::string broken = ParseFields(frame.content, packet);
    packet->file_bytes = frame.bytes;
    if (!broken.empty()) {
      LosePacket(broken);
      chain_broken = true;
      continue;
    }
    if (Place(*packet) == Use::kPassOver) continue;
    if (static_cast<uint32_t>(packet->type) == trace::Packet::kCompressedFieldNumber) {
      const std::string wrong = Unpack(packet->body);
      // An empty packet tells its number, and starts the walk through the content.
      packet->type = PacketType::kNone;
      packet->body = absl::string_view();
      outer = *packet;
      if (!wrong.empty()) {
        LosePacket(wrong);
        continue;
      }
    }
    packet->missing = std::exchange(missing, 0);
    if (!again) ++packets;
    return Outcome::kPacket;
  }
}

PacketReader::Outcome PacketReader::Next(RawPacket* packet) {
  State& state = *state_;
  if (state.at_end) return Outcome::kDamaged;
  if (state.NextInner(packet)) return Outcome::kPacket;
  state.inner.clear();
  state.inner_position = 0;
  return state.NextOuter(packet);
}

void PacketReader::Seek(uint64_t position) {
  State& state = *state_;
  state.inner.clear();
  state.inner_position = 0;
  state.at_end = false;
  const auto after = std::upper_bound(state.chain_starts.begin(), state.chain_starts.end(), position);
  state.offset = after == state.chain_starts.begin() ? position : *std::prev(after);
  state.dictionary.clear();
  state.chain_broken = false;
  state.number_known = position == 0;
  state.next_number = state.missing = 0;
  state.section = 0;
  state.ended = false;
  RawPacket packet;
  while (state.offset < position && state.NextOuter(&packet) == Outcome::kPacket) {
  }
  state.offset = position;
  state.inner.clear();
  state.at_end = false;
}

bool PacketReader::Refresh() {
  State& state = *state_;
  state.window.Refresh();
  if (state.before_end) {
    state.damage = std::move(state.before_end->text);
    state.damaged_places = state.before_end->places;
    state.damaged_bytes = state.before_end->bytes;
    state.went_on = state.before_end->went_on;
    state.last_damage_to = state.before_end->last_to;
    state.read_to = state.before_end->read_to;
    state.cut_short = false;
    state.before_end.reset();
  }
  state.at_end = false;
  return state.window.file_bytes() >= state.offset;
}

std::vector<uint64_t> PacketReader::TakeChainStarts() { return std::move(state_->chain_starts); }
void PacketReader::SetChainStarts(std::vector<uint64_t> starts) { state_->chain_starts = std::move(starts); }

uint64_t PacketReader::position() const { return state_->offset; }
uint64_t PacketReader::file_bytes() const { return state_->window.file_bytes(); }
uint64_t PacketReader::bytes_read() const { return state_->window.bytes_read(); }
uint64_t PacketReader::damaged_bytes() const { return state_->damaged_bytes; }
bool PacketReader::cut_short() const { return state_->cut_short; }

// A packet may be framed a second time before anybody has looked at its content. What else it holds is whole.
void PacketReader::ReportDamage(absl::string_view what) {
  State& state = *state_;
  if (std::exchange(state.is_impossible, true)) return;
  if (state.packet_offset >= state.judged_to) state.again = false;
  state.judged_to = std::max(state.judged_to, state.offset);
  --state.packets;  // it is none of those before it
  state.NoteDamage(state.packet_offset, state.offset, what);
  ++state.packets;
  ++state.missing;
}

uint64_t PacketReader::TakeMissing() { return std::exchange(state_->missing, 0); }

std::string PacketReader::damage() const {
  const State& state = *state_;
  std::string text = state.damage;
  if (text.empty()) return text;
  if (state.went_on < state.window.file_bytes()) absl::StrAppend(&text, "; reading went on at byte ", state.went_on);
  if (state.damaged_places > 1) {
    absl::StrAppend(&text, "; ", state.damaged_places - 1, " more such place", state.damaged_places == 2 ? "" : "s",
                    ", ", state.damaged_bytes, " bytes in all are of no use");
  }
  if (state.search.gave_up())
    absl::StrAppend(&text, "; then too much in it looks like a packet and is none: the search was given up");
  return text;
}

}  // namespace gpumem
