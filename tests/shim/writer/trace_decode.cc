// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "trace_decode.h"

#include <google/protobuf/io/coded_stream.h>
#include <lz4.h>

#include <fstream>
#include <iterator>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace gpumemshim::writer {
namespace {

namespace pb = gpumem::trace;
using google::protobuf::io::CodedInputStream;

// The column's value at i by the rule of EventBatch.
template <typename Column>
auto At(const Column& column, int i) -> std::decay_t<decltype(column[0])> {
  if (column.size() == 0) return {};
  return column.size() == 1 ? column[0] : column[i];
}

template <typename Column>
bool LengthOk(const Column& column, uint32_t count) {
  return column.size() <= 1 || static_cast<uint32_t>(column.size()) == count;
}

void TakeDefinitions(const pb::Definitions& d, Decoded* out) {
  for (const auto& s : d.strings()) out->strings[s.id()] = s.value();
  for (const auto& c : d.python_codes()) out->codes[c.id()] = c;
  for (const auto& f : d.frames()) {
    if (f.python_code() != 0 && out->codes.count(f.python_code()) == 0) out->error = "frame before its code";
    out->frames[f.id()] = f;
  }
  for (const auto& s : d.stacks()) {
    for (int i = 0; i < s.parent_size(); i++) {
      uint64_t id = s.first_id() + static_cast<uint64_t>(i);
      if (s.parent(i) >= id) out->error = "parent not smaller than child";
      if (out->frames.count(s.frame(i)) == 0) out->error = "node before its frame";
      if (!out->nodes.emplace(id, std::pair(s.parent(i), s.frame(i))).second) out->error = "node defined twice";
    }
  }
  for (const auto& t : d.threads()) out->threads[t.id()] = t;
  for (const auto& v : d.devices()) out->devices[v.index()] = v;
  for (const auto& m : d.modules()) out->modules.push_back(m);
  for (const auto& [key, value] : d.versions()) out->versions[key] = value;
  if (d.stack_keys().key_size() != d.stack_keys().stack_size()) out->error = "stack keys";
  for (int i = 0; i < d.stack_keys().key_size(); i++)
    out->stack_of_key[d.stack_keys().key(i)] = d.stack_keys().stack(i);
}

void TakeEvents(const pb::EventBatch& batch, Decoded* out) {
  size_t before = out->rows.size();
  if (!Rows(batch, &out->rows)) out->error = "column length";
  for (size_t i = before; i < out->rows.size(); i++) {
    const Row& row = out->rows[i];
    if (row.stack != 0 && out->nodes.count(row.stack) == 0) out->error = "event before its stack";
    if (row.api != 0 && out->strings.count(row.api) == 0) out->error = "event before its api name";
    if (out->threads.count(row.thread) == 0) out->error = "event before its thread";
  }
}

std::string Unpack(const pb::Compressed& c, Decoded* out) {
  std::string payload = c.payload();
  const int packed = static_cast<int>(payload.size()), size = static_cast<int>(c.uncompressed_size());
  const bool chained = c.codec() == pb::CODEC_LZ4_CHAINED;
  if (chained || c.codec() == pb::CODEC_LZ4_BLOCK) {
    payload.resize(c.uncompressed_size());
    if (!chained) out->window.clear();
    const int got = LZ4_decompress_safe_usingDict(c.payload().data(), payload.data(), packed, size, out->window.data(),
                                                  static_cast<int>(out->window.size()));
    if (got != size) out->error = "lz4";
    out->chained += chained ? 1 : 0;
  } else {
    out->window.clear();
  }
  out->window += payload;
  if (out->window.size() > 65536) out->window.erase(0, out->window.size() - 65536);
  return payload;
}

void TakePacket(const pb::Packet& packet, bool inner, Decoded* out) {
  out->packets.push_back(packet);
  switch (packet.data_case()) {
    case pb::Packet::kHeader:
      out->header = packet.header();
      break;
    case pb::Packet::kDefinitions:
      TakeDefinitions(packet.definitions(), out);
      break;
    case pb::Packet::kEvents:
      TakeEvents(packet.events(), out);
      break;
    case pb::Packet::kLiveSnapshot:
      for (uint32_t i : packet.live_snapshot().torch_segments())
        out->torch_segments.push_back(i + static_cast<uint32_t>(out->live_snapshot.size()));
      if (packet.live_snapshot().begins() != out->live_snapshot.empty()) out->error = "begin of the live snapshot";
      if (!Rows(packet.live_snapshot().events(), &out->live_snapshot)) out->error = "live snapshot";
      break;
    case pb::Packet::kContinued:
      out->continued = true;
      break;
    case pb::Packet::kCounters:
      out->counters = packet.counters();
      break;
    case pb::Packet::kLosses:
      out->losses = packet.losses();
      break;
    case pb::Packet::kEnd:
      out->end = packet.end();
      out->has_end = true;
      break;
    case pb::Packet::kCompressed: {
      const std::string payload = Unpack(packet.compressed(), out);
      pb::Trace trace;
      if (inner || payload.size() != packet.compressed().uncompressed_size() || !trace.ParseFromString(payload))
        out->error = "compressed";
      for (const auto& p : trace.packet()) {
        if (p.sync() != 0 || p.sequence() != 0 || p.checksum() != 0) out->error = "framing inside a compressed packet";
        TakePacket(p, true, out);
      }
      break;
    }
    default:
      out->error = "packet without data";
  }
}

}  // namespace

bool Rows(const pb::EventBatch& b, std::vector<Row>* rows) {
  uint32_t n = b.count();
  bool ok = LengthOk(b.time_delta_ns(), n) && LengthOk(b.kind(), n) && LengthOk(b.layer(), n) &&
            LengthOk(b.memory(), n) && LengthOk(b.device(), n) && LengthOk(b.address_delta(), n) &&
            LengthOk(b.size(), n) && LengthOk(b.requested_size(), n) && LengthOk(b.stream(), n) &&
            LengthOk(b.handle(), n) && LengthOk(b.thread(), n) && LengthOk(b.stack(), n) && LengthOk(b.tag(), n) &&
            LengthOk(b.result(), n) && LengthOk(b.duration_ns(), n) && LengthOk(b.api(), n);
  uint64_t time_ns = b.first_time_ns(), address = 0;
  for (int i = 0; ok && i < static_cast<int>(n); i++) {
    time_ns += static_cast<uint64_t>(At(b.time_delta_ns(), i)) << b.time_shift();
    address += static_cast<uint64_t>(At(b.address_delta(), i));
    rows->push_back({time_ns, address << b.address_shift(), At(b.size(), i) << b.size_shift(),
                     At(b.requested_size(), i), At(b.stream(), i), At(b.handle(), i), At(b.stack(), i),
                     At(b.thread(), i), At(b.tag(), i), At(b.duration_ns(), i), At(b.api(), i), At(b.result(), i),
                     At(b.device(), i), At(b.kind(), i), At(b.layer(), i), At(b.memory(), i)});
  }
  return ok;
}

std::vector<pb::Frame> Decoded::Frames(uint64_t stack) const {
  std::vector<pb::Frame> result;
  for (; stack != 0; stack = nodes.at(stack).first) result.push_back(frames.at(nodes.at(stack).second));
  return result;
}

Decoded DecodeBytes(const std::string& bytes) {
  Decoded out;
  CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()), static_cast<int>(bytes.size()));
  uint64_t expected = 0;
  while (uint32_t tag = in.ReadTag()) {
    uint32_t size;
    std::string text;
    if (tag != 10) return out.error = "tag", out;
    if (!in.ReadVarint32(&size) || !in.ReadString(&text, static_cast<int>(size))) {
      out.truncated = true;
      break;
    }
    pb::Packet packet;
    if (!packet.ParseFromString(text)) return out.error = "parse", out;
    if (packet.sync() != 0x31544D47 || text.compare(1, 4, "GMT1") != 0) out.error = "sync";
    if (text.size() < 9 || packet.checksum() != XXH3_64bits(text.data(), text.size() - 9)) out.error = "checksum";
    if (packet.sequence() != expected && !out.packets.empty()) out.error = "sequence";
    if (out.packets.empty() && packet.sequence() != 0 && packet.header().part().number() < 2) out.error = "sequence";
    expected = packet.sequence() + 1;
    out.last_sequence = packet.sequence();
    TakePacket(packet, false, &out);
  }
  return out;
}

Decoded DecodeFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  return DecodeBytes(bytes);
}

}  // namespace gpumemshim::writer
