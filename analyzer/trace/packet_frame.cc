// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "trace/packet_frame.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/match.h"
#include "trace/limits.h"
#include "trace/wire.h"

namespace gpumem {
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
