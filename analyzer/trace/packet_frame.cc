// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "trace/packet_frame.h"

#include <lz4.h>
#include <xxhash.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gpumem/trace.pb.h"
#include "trace/limits.h"
#include "trace/wire.h"

namespace gpumem {

std::string Decompress(uint64_t codec, absl::string_view payload, uint64_t size, absl::string_view dictionary,
                       std::string* out) {
  const uint64_t most = std::min(kMaxUncompressed, kAlwaysUncompressed + kMaxRatio * payload.size());
  if (size > most)
    return absl::StrCat("a compressed packet claims ", size, " bytes; at most ", most, " are allowed for its ",
                        payload.size());
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
  return absl::StrCat("compression codec ", codec, " is not known to this version of gpumemshim");
}

namespace {

// Longest packet of the file: an uncompressed batch of the greatest size, and its framing.
constexpr uint64_t kMaxPacket = kMaxUncompressed + (1u << 20);
constexpr char kPacketTag = '\x0a';                // Trace.packet, length-delimited
constexpr size_t kMaxFrame = 1 + 10;               // tag and longest varint
constexpr absl::string_view kSync("\x0dGMT1", 5);  // tag of Packet.sync and its value
constexpr char kChecksumTag = '\x79';              // Packet.checksum, fixed64
constexpr size_t kChecksumBytes = 1 + 8;
constexpr uint64_t kSearchBytes = 1u << 20;

PacketFrame Broken(absl::string_view why) { return {FrameState::kBroken, why, {}, 0}; }

// `bytes` is what the length says. Nothing of it is believed before its checksum holds.
PacketFrame CheckContent(absl::string_view bytes, uint64_t frame_bytes) {
  if (!absl::StartsWith(bytes, kSync)) return Broken("a packet without its sync word");
  if (bytes.size() < kSync.size() + kChecksumBytes || bytes[bytes.size() - kChecksumBytes] != kChecksumTag)
    return Broken("a packet without its checksum");
  const absl::string_view content = bytes.substr(0, bytes.size() - kChecksumBytes);
  uint64_t checksum = 0;
  std::memcpy(&checksum, bytes.data() + content.size() + 1, sizeof(checksum));
  if (XXH3_64bits(content.data(), content.size()) != checksum) return Broken("a packet's checksum does not match");
  return {FrameState::kWhole, {}, content, frame_bytes + bytes.size()};
}

}  // namespace

PacketFrame ReadFrame(FileWindow* window, uint64_t offset) {
  const absl::string_view frame = window->Read(offset, kMaxFrame);
  if (frame.empty()) {
    return offset == window->file_bytes() ? PacketFrame{} : Broken("the file became shorter while it was read");
  }
  if (frame[0] != kPacketTag) return Broken("bytes that are no trace packet");
  const char* position = frame.data() + 1;
  uint64_t length = 0;
  if (!ReadVarint(&position, frame.data() + frame.size(), &length)) {
    return frame.size() < kMaxFrame ? PacketFrame{FrameState::kCutShort, {}, {}, 0}
                                    : Broken("a packet's length is broken");
  }
  const uint64_t frame_bytes = static_cast<uint64_t>(position - frame.data());
  if (length > kMaxPacket) return Broken("a packet's length is impossible");
  const absl::string_view bytes = window->Read(offset + frame_bytes, length);
  if (bytes.size() < length) return {FrameState::kCutShort, {}, {}, 0};
  return CheckContent(bytes, frame_bytes);
}

bool BeginsLikeTrace(FileWindow* window) {
  const absl::string_view start = window->Read(0, kMaxFrame + kSync.size());
  const char* position = start.data() + 1;
  uint64_t length = 0;
  if (start.size() < 2 || start[0] != kPacketTag || !ReadVarint(&position, start.data() + start.size(), &length))
    return false;
  // A file that is cut inside its first bytes still begins like a trace.
  const absl::string_view rest = start.substr(static_cast<size_t>(position - start.data()));
  return absl::StartsWith(kSync, rest.substr(0, kSync.size()));
}

bool PacketSearch::Spend(uint64_t bytes, const FileWindow& window) {
  work_ += bytes;
  gave_up_ |= work_ > kFreeWork && work_ / kWorkPerByte > window.file_bytes();
  return !gave_up_;
}

// A sync word stands at `sync`: where its packet begins, or kNone where there is none.
uint64_t PacketSearch::Verify(FileWindow* window, uint64_t from, uint64_t sync) {
  const uint64_t back = std::min<uint64_t>(sync - from, kMaxFrame);
  const absl::string_view before = window->Read(sync - back, back);
  // The length's bytes but the last one have their upper bit set; the tag before them has not.
  size_t at = before.size();
  if (at == 0 || static_cast<uint8_t>(before[--at]) >= 0x80) return kNone;
  while (at > 0 && static_cast<uint8_t>(before[at - 1]) >= 0x80) --at;
  if (at == 0 || before[--at] != kPacketTag) return kNone;
  const char* position = before.data() + at + 1;
  uint64_t length = 0;
  if (!ReadVarint(&position, before.data() + before.size(), &length) || length > kMaxPacket ||
      length > window->file_bytes() - sync)
    return kNone;
  const uint64_t start = sync - (before.size() - at);
  const uint64_t read_before = window->bytes_read();
  if (!Spend(length, *window)) return kNone;
  const bool whole = ReadFrame(window, start).state == FrameState::kWhole;
  Spend(window->bytes_read() - read_before, *window);
  return whole ? start : kNone;
}

uint64_t PacketSearch::Next(FileWindow* window, uint64_t from, uint64_t until) {
  const uint64_t end = std::min(until, window->file_bytes());
  for (uint64_t at = from; at < end && !gave_up_;) {
    const uint64_t read_before = window->bytes_read();
    const absl::string_view bytes = window->Read(at, std::min(kSearchBytes, end - at));
    if (bytes.size() < kSync.size() || !Spend(window->bytes_read() - read_before, *window)) return kNone;
    const size_t found = bytes.find(kSync);
    if (found == absl::string_view::npos) {
      if (bytes.size() < kSearchBytes) return kNone;
      at += bytes.size() - (kSync.size() - 1);
      continue;
    }
    const uint64_t start = Verify(window, from, at + found);
    if (start != kNone) return start;
    at += found + 1;
  }
  return kNone;
}

}  // namespace gpumem
