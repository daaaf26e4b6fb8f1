// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "trace/write/packet_writer.h"

#include <lz4.h>

#include <algorithm>

#include "gpumem/trace.pb.h"
#include "trace/ring/ring_recovery.h"

namespace gpumem {
namespace {

constexpr size_t kMaxAddresses = 5000;     // in one packet
constexpr size_t kMaxBodyBytes = 4 << 20;  // well below what readers accept

// Adds packets for addresses[begin, end), more than one where one would be too large.
void AddPackets(uint32_t module_id, const ModuleSymbols& symbols, const std::vector<uint64_t>& addresses, size_t begin,
                size_t end, uint64_t sequence, std::vector<std::string>* packets) {
  ModuleSymbols part;
  for (size_t i = begin; i < end; ++i) part.Add(addresses[i], symbols.At(addresses[i]));
  trace::Packet packet;
  packet.mutable_definitions()->add_symbols()->ParseFromString(part.Serialize(module_id));
  if (packet.definitions().ByteSizeLong() > kMaxBodyBytes && end - begin > 1) {
    const size_t middle = begin + (end - begin) / 2;
    AddPackets(module_id, symbols, addresses, begin, middle, sequence, packets);
    AddPackets(module_id, symbols, addresses, middle, end, sequence, packets);
    return;
  }
  const auto type = static_cast<PacketType>(trace::Packet::kCompressedFieldNumber);
  packets->push_back(FramePacket({type, CompressedBody(packet)}, sequence + packets->size()));
}

}  // namespace

std::string CompressedBody(const trace::Packet& packet) {
  trace::Trace inner;
  *inner.add_packet() = packet;
  const std::string plain = inner.SerializeAsString();
  std::string payload(static_cast<size_t>(LZ4_compressBound(static_cast<int>(plain.size()))), '\0');
  const int size = LZ4_compress_default(plain.data(), payload.data(), static_cast<int>(plain.size()),
                                        static_cast<int>(payload.size()));
  payload.resize(static_cast<size_t>(std::max(size, 0)));
  trace::Compressed compressed;
  compressed.set_codec(trace::CODEC_LZ4_BLOCK);
  compressed.set_uncompressed_size(static_cast<uint32_t>(plain.size()));
  compressed.set_payload(std::move(payload));
  return compressed.SerializeAsString();
}

std::vector<std::string> SymbolPackets(uint32_t module_id, const ModuleSymbols& symbols, uint64_t sequence) {
  std::vector<std::string> packets;
  const std::vector<uint64_t> addresses = symbols.Addresses();
  for (size_t begin = 0; begin < addresses.size(); begin += kMaxAddresses) {
    const size_t end = std::min(addresses.size(), begin + kMaxAddresses);
    AddPackets(module_id, symbols, addresses, begin, end, sequence, &packets);
  }
  return packets;
}

}  // namespace gpumem
