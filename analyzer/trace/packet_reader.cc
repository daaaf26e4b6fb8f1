// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "trace/packet_reader.h"

#include <lz4.h>
#include <xxhash.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "gpumem/trace.pb.h"
#include "trace/file_window.h"
#include "trace/wire.h"

namespace gpumem {
namespace {

constexpr uint64_t kMaxUncompressed = 64u << 20;
// Longest packet of the file: an uncompressed batch of the greatest size, and its framing.
constexpr uint64_t kMaxPacket = kMaxUncompressed + (1u << 20);
constexpr size_t kDictionaryBytes = 64 << 10;
constexpr char kPacketTag = '\x0a';   // Trace.packet, length-delimited
constexpr size_t kMaxFrame = 1 + 10;  // tag and longest varint
constexpr size_t kSyncBytes = 5;      // tag of Packet.sync and its value
constexpr char kSync[kSyncBytes + 1] = "\x0dGMT1";
constexpr char kChecksumTag = '\x79';  // Packet.checksum, fixed64
constexpr size_t kChecksumBytes = 1 + 8;

bool IsPayload(uint32_t field) {
  return field == trace::Packet::kDefinitionsFieldNumber || field == trace::Packet::kEventsFieldNumber ||
         field == trace::Packet::kCountersFieldNumber || field == trace::Packet::kLossesFieldNumber ||
         field == trace::Packet::kCarriedFieldNumber;
}

bool IsData(uint32_t field) {
  return field >= trace::Packet::kHeaderFieldNumber && field < trace::Packet::kChecksumFieldNumber;
}

// Decompresses `payload` into `out`, which gets exactly `size` bytes. Returns what is wrong, or "".
std::string Decompress(uint64_t codec, absl::string_view payload, uint64_t size, absl::string_view dictionary,
                       std::string* out) {
  if (size > kMaxUncompressed)
    return absl::StrCat("a compressed packet claims ", size, " bytes; at most ", kMaxUncompressed, " are allowed");
  out->resize(size);
  if (codec == trace::CODEC_LZ4_BLOCK) {
    const int got =
        LZ4_decompress_safe(payload.data(), out->data(), static_cast<int>(payload.size()), static_cast<int>(size));
    return got >= 0 && static_cast<uint64_t>(got) == size ? "" : "an LZ4 block is broken";
  }
  if (codec == trace::CODEC_LZ4_CHAINED) {
    const int got =
        LZ4_decompress_safe_usingDict(payload.data(), out->data(), static_cast<int>(payload.size()),
                                      static_cast<int>(size), dictionary.data(), static_cast<int>(dictionary.size()));
    return got >= 0 && static_cast<uint64_t>(got) == size ? "" : "a chained LZ4 block is broken";
  }
  if (codec == trace::CODEC_ZSTD) {
    const size_t got = ZSTD_decompress(out->data(), size, payload.data(), payload.size());
    return ZSTD_isError(got) == 0 && got == size ? "" : "a zstd frame is broken";
  }
  if (codec == trace::CODEC_NONE) {
    if (payload.size() != size) return "a stored packet has another size than it claims";
    out->assign(payload.data(), payload.size());
    return "";
  }
  return absl::StrCat("compression codec ", codec, " is not known to this version of gpumem");
}

}  // namespace

struct PacketReader::State {
  explicit State(FileWindow file) : window(std::move(file)) {}

  Outcome Damaged(uint64_t offset, absl::string_view what);
  Outcome CutShort();
  bool NextInner(RawPacket* packet);
  Outcome NextOuter(RawPacket* packet);
  Outcome ParsePacket(absl::string_view bytes, RawPacket* packet);
  std::string Unpack(absl::string_view compressed);

  FileWindow window;
  uint64_t offset = 0;         // of the next packet of the file
  uint64_t packet_offset = 0;  // of the packet returned last
  uint64_t packet_sequence = 0;
  uint64_t packets = 0;
  std::string damage;
  bool cut_short = false;

  std::string dictionary;              // of the next chained packet
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
        "`gpumem doctor` checks the set-up"));
  }
  const absl::string_view start = window.Read(0, kMaxFrame + kSyncBytes);
  const char* position = start.data() + 1;
  uint64_t length = 0;
  const bool framed =
      start.size() > 1 && start[0] == kPacketTag && ReadVarint(&position, start.data() + start.size(), &length);
  const absl::string_view rest =
      framed ? start.substr(static_cast<size_t>(position - start.data())) : absl::string_view();
  // A file that is cut inside its first bytes still starts like a trace: it is reported as damaged, not as foreign.
  if (!framed || !absl::StartsWith(absl::string_view(kSync, kSyncBytes), rest.substr(0, kSyncBytes))) {
    return absl::InvalidArgumentError(
        absl::StrCat(path,
                     " is not a gpumem trace (it does not start with a trace packet). Traces are named *.gmtrace; "
                     "`gpumem run -- COMMAND` makes one"));
  }
  return PacketReader(std::make_unique<State>(std::move(window)));
}

PacketReader::Outcome PacketReader::State::Damaged(uint64_t at, absl::string_view what) {
  if (damage.empty()) {
    damage = absl::StrCat(what, " at byte ", at, " of ", window.file_bytes(), "; ", packets,
                          packets == 1 ? " packet" : " packets", " before it (", at, " bytes) were read");
  }
  offset = at;
  inner.clear();
  inner_position = 0;
  return Outcome::kDamaged;
}

PacketReader::Outcome PacketReader::State::CutShort() {
  cut_short = true;
  return Damaged(offset, "the last packet is cut short");
}

// Takes the next packet out of the decompressed payload. Leaves `damage` set where the payload is broken.
bool PacketReader::State::NextInner(RawPacket* packet) {
  while (inner_position < inner.size()) {
    const absl::string_view rest = absl::string_view(inner).substr(inner_position);
    WireReader reader(rest);
    WireField field;
    if (!reader.Next(&field) || field.number != trace::Trace::kPacketFieldNumber || field.type != WireType::kBytes) {
      Damaged(packet_offset, "the content of a compressed packet is broken");
      return false;
    }
    inner_position += static_cast<size_t>(reader.position() - rest.data());
    WireReader fields(field.bytes);
    *packet = RawPacket{};
    for (WireField data; fields.Next(&data);) {
      if (!IsPayload(data.number)) {
        if (!IsData(data.number) || data.number > trace::Packet::kCompressedFieldNumber) continue;
        Damaged(packet_offset, "a compressed packet holds what must not be compressed");
        return false;
      }
      if (data.type != WireType::kBytes || packet->type != PacketType::kNone) {
        Damaged(packet_offset, "the content of a compressed packet is broken");
        return false;
      }
      packet->type = static_cast<PacketType>(data.number);
      packet->body = data.bytes;
    }
    if (!fields.ok()) {
      Damaged(packet_offset, "the content of a compressed packet is broken");
      return false;
    }
    packet->file_offset = packet_offset;
    packet->sequence = packet_sequence;
    packet->compressed = true;
    return true;
  }
  return false;
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
    if (chain_starts.empty() || chain_starts.back() < packet_offset) chain_starts.push_back(packet_offset);
  }
  const std::string wrong = Decompress(codec, payload, size, dictionary, &inner);
  if (!wrong.empty()) return wrong;
  if (inner.size() >= kDictionaryBytes) {
    dictionary.assign(inner, inner.size() - kDictionaryBytes);
  } else {
    dictionary += inner;
    if (dictionary.size() > kDictionaryBytes) dictionary.erase(0, dictionary.size() - kDictionaryBytes);
  }
  return "";
}

// `bytes` is one packet of the file. Checks its sync word and checksum before anything of it is believed.
PacketReader::Outcome PacketReader::State::ParsePacket(absl::string_view bytes, RawPacket* packet) {
  if (!absl::StartsWith(bytes, absl::string_view(kSync, kSyncBytes)))
    return Damaged(packet_offset, "a packet without its sync word");
  if (bytes.size() < kSyncBytes + kChecksumBytes || bytes[bytes.size() - kChecksumBytes] != kChecksumTag) {
    return Damaged(packet_offset, "a packet without its checksum");
  }
  const absl::string_view checked = bytes.substr(0, bytes.size() - kChecksumBytes);
  uint64_t checksum = 0;
  std::memcpy(&checksum, bytes.data() + checked.size() + 1, sizeof(checksum));
  if (XXH3_64bits(checked.data(), checked.size()) != checksum)
    return Damaged(packet_offset, "a packet's checksum does not match");

  *packet = RawPacket{};
  packet->file_offset = packet_offset;
  WireReader reader(checked);
  bool is_compressed = false;
  for (WireField field; reader.Next(&field);) {
    if (field.number == trace::Packet::kSequenceFieldNumber && field.type == WireType::kVarint)
      packet->sequence = field.varint;
    if (!IsData(field.number)) continue;
    if (field.type != WireType::kBytes || packet->type != PacketType::kNone)
      return Damaged(packet_offset, "a packet is broken");
    packet->type = static_cast<PacketType>(field.number);
    packet->body = field.bytes;
    is_compressed = field.number == trace::Packet::kCompressedFieldNumber;
  }
  if (!reader.ok()) return Damaged(packet_offset, "a packet is broken");
  packet_sequence = packet->sequence;
  if (is_compressed) {
    const std::string wrong = Unpack(packet->body);
    if (!wrong.empty()) return Damaged(packet_offset, wrong);
    // An empty packet tells its sequence number, and starts the walk through the content.
    packet->type = PacketType::kNone;
    packet->body = absl::string_view();
  }
  return Outcome::kPacket;
}

PacketReader::Outcome PacketReader::State::NextOuter(RawPacket* packet) {
  packet_offset = offset;
  const absl::string_view frame = window.Read(offset, kMaxFrame);
  if (frame.empty()) {
    return offset == window.file_bytes() ? Outcome::kEnd : Damaged(offset, "the file became shorter while it was read");
  }
  if (frame[0] != kPacketTag) return Damaged(offset, "bytes that are no trace packet");
  const char* position = frame.data() + 1;
  uint64_t length = 0;
  if (!ReadVarint(&position, frame.data() + frame.size(), &length)) {
    return frame.size() < kMaxFrame ? CutShort() : Damaged(offset, "a packet's length is broken");
  }
  const uint64_t frame_bytes = static_cast<uint64_t>(position - frame.data());
  if (length > kMaxPacket) return Damaged(offset, "a packet's length is impossible");
  const absl::string_view bytes = window.Read(offset + frame_bytes, length);
  if (bytes.size() < length) return CutShort();
  const Outcome outcome = ParsePacket(bytes, packet);
  if (outcome == Outcome::kPacket) {
    offset += frame_bytes + length;
    ++packets;
  }
  return outcome;
}

PacketReader::Outcome PacketReader::Next(RawPacket* packet) {
  State& state = *state_;
  if (!state.damage.empty()) return Outcome::kDamaged;
  if (state.NextInner(packet)) return Outcome::kPacket;
  if (!state.damage.empty()) return Outcome::kDamaged;
  state.inner.clear();
  state.inner_position = 0;
  return state.NextOuter(packet);
}

void PacketReader::Seek(uint64_t position) {
  State& state = *state_;
  state.inner.clear();
  state.inner_position = 0;
  state.damage.clear();
  state.cut_short = false;
  const auto after = std::upper_bound(state.chain_starts.begin(), state.chain_starts.end(), position);
  state.offset = after == state.chain_starts.begin() ? position : *std::prev(after);
  state.dictionary.clear();
  RawPacket packet;
  while (state.offset < position && state.NextOuter(&packet) == Outcome::kPacket) {
    --state.packets;  // it was counted before
  }
  state.offset = position;
  state.inner.clear();
}

std::vector<uint64_t> PacketReader::TakeChainStarts() { return std::move(state_->chain_starts); }
void PacketReader::SetChainStarts(std::vector<uint64_t> starts) { state_->chain_starts = std::move(starts); }

uint64_t PacketReader::position() const { return state_->offset; }
uint64_t PacketReader::file_bytes() const { return state_->window.file_bytes(); }
const std::string& PacketReader::damage() const { return state_->damage; }
bool PacketReader::cut_short() const { return state_->cut_short; }
void PacketReader::ReportDamage(absl::string_view what) { state_->Damaged(state_->packet_offset, what); }

}  // namespace gpumem
