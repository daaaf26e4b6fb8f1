// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "trace/write/trace_writer.h"

#include <lz4.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/status_macros.h"
#include "gpumem/trace.pb.h"
#include "trace/limits.h"
#include "trace/ring/ring_recovery.h"

namespace gpumem {
namespace {

using WireBatch = trace::EventBatch;

void PutVarint(uint64_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>(value | 0x80));
  out->push_back(static_cast<char>(value));
}

uint64_t ZigZag(int64_t value) { return static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63); }

void PutField(int field, uint64_t value, std::string* out) {
  if (value == 0) return;
  PutVarint(static_cast<uint64_t>(field) << 3, out);
  PutVarint(value, out);
}

// How far all values can be shifted right without loss.
template <typename Get>
uint32_t CommonShift(const std::vector<EventRow>& rows, Get get) {
  uint64_t bits = 0;
  for (const EventRow& row : rows) bits |= get(row);
  return bits == 0 ? 0 : static_cast<uint32_t>(__builtin_ctzll(bits));
}

class ColumnWriter {
 public:
  ColumnWriter(const std::vector<EventRow>& rows, std::string* out) : rows_(rows), out_(out) {}

  // None where all values are 0, one where all are equal.
  template <typename Get>
  void Put(int field, Get get) {
    values_.clear();
    for (const EventRow& row : rows_) values_.push_back(get(row));
    Write(field);
  }

  // Differences of what `get` gives, the first one from `before`.
  template <typename Get>
  void PutDeltas(int field, uint64_t before, Get get) {
    values_.clear();
    for (const EventRow& row : rows_) {
      const uint64_t value = get(row);
      values_.push_back(ZigZag(static_cast<int64_t>(value - before)));
      before = value;
    }
    Write(field);
  }

 private:
  void Write(int field) {
    const uint64_t first = values_.front();
    const bool is_one = std::all_of(values_.begin(), values_.end(), [first](uint64_t value) { return value == first; });
    if (is_one && first == 0) return;
    packed_.clear();
    for (size_t i = 0; i < (is_one ? 1 : values_.size()); ++i) PutVarint(values_[i], &packed_);
    PutVarint(static_cast<uint64_t>(field) << 3 | 2, out_);
    PutVarint(packed_.size(), out_);
    out_->append(packed_);
  }

  const std::vector<EventRow>& rows_;
  std::string* out_;
  std::vector<uint64_t> values_;
  std::string packed_;
};

}  // namespace

std::string BatchEncoder::Serialize() const {
  std::string out;
  if (rows_.empty()) return out;
  const auto time = [](const EventRow& row) { return row.time_ns; };
  const auto address = [](const EventRow& row) { return row.address; };
  const auto size = [](const EventRow& row) { return row.size; };
  const uint32_t time_shift = CommonShift(rows_, time);
  const uint32_t address_shift = CommonShift(rows_, address);
  const uint32_t size_shift = CommonShift(rows_, size);
  PutField(WireBatch::kCountFieldNumber, rows_.size(), &out);
  PutField(WireBatch::kFirstTimeNsFieldNumber, rows_[0].time_ns, &out);
  PutField(WireBatch::kTimeShiftFieldNumber, time_shift, &out);
  PutField(WireBatch::kAddressShiftFieldNumber, address_shift, &out);
  PutField(WireBatch::kSizeShiftFieldNumber, size_shift, &out);
  ColumnWriter columns(rows_, &out);
  columns.PutDeltas(WireBatch::kTimeDeltaNsFieldNumber, rows_[0].time_ns >> time_shift,
                    [=](const EventRow& row) { return row.time_ns >> time_shift; });
  columns.Put(WireBatch::kKindFieldNumber, [](const EventRow& row) { return static_cast<uint64_t>(row.kind); });
  columns.Put(WireBatch::kLayerFieldNumber, [](const EventRow& row) { return static_cast<uint64_t>(row.layer); });
  columns.Put(WireBatch::kMemoryFieldNumber, [](const EventRow& row) { return static_cast<uint64_t>(row.memory); });
  columns.Put(WireBatch::kDeviceFieldNumber, [](const EventRow& row) { return ZigZag(row.device); });
  columns.PutDeltas(WireBatch::kAddressDeltaFieldNumber, 0,
                    [=](const EventRow& row) { return row.address >> address_shift; });
  columns.Put(WireBatch::kSizeFieldNumber, [=](const EventRow& row) { return row.size >> size_shift; });
  columns.Put(WireBatch::kRequestedSizeFieldNumber, [](const EventRow& row) { return row.requested_size; });
  columns.Put(WireBatch::kStreamFieldNumber, [](const EventRow& row) { return row.stream; });
  columns.Put(WireBatch::kHandleFieldNumber, [](const EventRow& row) { return row.handle; });
  columns.Put(WireBatch::kThreadFieldNumber, [](const EventRow& row) { return row.thread; });
  columns.Put(WireBatch::kStackFieldNumber, [](const EventRow& row) { return row.stack; });
  columns.Put(WireBatch::kTagFieldNumber, [](const EventRow& row) { return row.tag; });
  columns.Put(WireBatch::kResultFieldNumber, [](const EventRow& row) { return ZigZag(row.result); });
  columns.Put(WireBatch::kDurationNsFieldNumber, [](const EventRow& row) { return row.duration_ns; });
  columns.Put(WireBatch::kApiFieldNumber, [](const EventRow& row) { return row.api; });
  columns.Put(WireBatch::kTextFieldNumber, [](const EventRow& row) { return row.text; });
  return out;
}

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

namespace {

constexpr uint32_t kFormatVersionWritten = 1;  // no chained codec

// What readers take, who refuse events without end in a few bytes: where events resemble each other so much that they
// come to less, they are written in small batches.
bool IsReadable(size_t events, size_t bytes) { return events <= kAlwaysEvents + kMaxEventsPerByte * bytes; }

}  // namespace

absl::Status TraceWriter::Write(const std::string& body, uint32_t type) {
  if (!status_.ok()) return status_;
  return status_ = sink_(FramePacket({static_cast<PacketType>(type), body}, sequence_++));
}

absl::Status TraceWriter::Begin(trace::Header header) {
  header.set_format_version(kFormatVersionWritten);
  return Write(header.SerializeAsString(), trace::Packet::kHeaderFieldNumber);
}

absl::Status TraceWriter::WriteCompressed(const trace::Packet& packet) {
  return Write(CompressedBody(packet), trace::Packet::kCompressedFieldNumber);
}

absl::Status TraceWriter::WriteDefinitions() {
  if (definitions_.is_empty()) return status_;
  trace::Packet packet;
  *packet.mutable_definitions() = definitions_.Take();
  return WriteCompressed(packet);
}

absl::Status TraceWriter::AddLiveSnapshot(const std::vector<EventRow>& rows,
                                          const std::vector<uint32_t>& torch_segments) {
  GPUMEM_RETURN_IF_ERROR(WriteDefinitions());
  size_t most = BatchEncoder::kMaxEvents;
  for (size_t begin = 0; begin < rows.size();) {
    const size_t end = std::min(rows.size(), begin + most);
    BatchEncoder part;
    for (size_t i = begin; i < end; ++i) part.Add(rows[i]);
    trace::Packet packet;
    trace::LiveSnapshot* const snapshot = packet.mutable_live_snapshot();
    const std::string events = part.Serialize();
    snapshot->mutable_events()->ParseFromString(events);
    snapshot->set_begins(begin == 0);
    for (const uint32_t row : torch_segments) {
      if (row >= begin && row < end) snapshot->add_torch_segments(row - static_cast<uint32_t>(begin));
    }
    std::string body = CompressedBody(packet);
    if (!IsReadable(end - begin, std::min(body.size(), events.size())) && most > kAlwaysEvents) {
      most = kAlwaysEvents;
      continue;
    }
    GPUMEM_RETURN_IF_ERROR(Write(body, trace::Packet::kCompressedFieldNumber));
    begin = end;
  }
  return status_;
}

absl::Status TraceWriter::AddAllocatorState(trace::AllocatorState part) {
  GPUMEM_RETURN_IF_ERROR(WriteDefinitions());
  trace::Packet packet;
  *packet.mutable_allocator_state() = std::move(part);
  return WriteCompressed(packet);
}

absl::Status TraceWriter::WriteBatch() {
  GPUMEM_RETURN_IF_ERROR(WriteDefinitions());
  if (batch_.count() == 0) return status_;
  const BatchEncoder batch = std::exchange(batch_, {});
  trace::Packet packet;
  const std::string events = batch.Serialize();
  packet.mutable_events()->ParseFromString(events);
  const std::string body = CompressedBody(packet);
  if (IsReadable(batch.count(), std::min(body.size(), events.size())))
    return Write(body, trace::Packet::kCompressedFieldNumber);
  for (size_t begin = 0; begin < batch.count(); begin += kAlwaysEvents) {
    BatchEncoder part;
    for (size_t i = begin; i < std::min<size_t>(batch.count(), begin + kAlwaysEvents); ++i) part.Add(batch.rows()[i]);
    packet.mutable_events()->ParseFromString(part.Serialize());
    GPUMEM_RETURN_IF_ERROR(WriteCompressed(packet));
  }
  return status_;
}

absl::Status TraceWriter::Add(const EventRow& row) {
  batch_.Add(row);
  end_.set_events(end_.events() + 1);
  end_.set_time_ns(std::max<uint64_t>(end_.time_ns(), row.time_ns));
  if (row.layer == trace::TORCH) end_.set_torch_events(end_.torch_events() + 1);
  if (row.layer == trace::RUNTIME) end_.set_runtime_events(end_.runtime_events() + 1);
  if (row.layer == trace::DRIVER) end_.set_driver_events(end_.driver_events() + 1);
  return batch_.is_full() || definitions_.is_large() ? WriteBatch() : status_;
}

absl::Status TraceWriter::End() {
  GPUMEM_RETURN_IF_ERROR(WriteBatch());
  return Write(end_.SerializeAsString(), trace::Packet::kEndFieldNumber);
}

}  // namespace gpumem
