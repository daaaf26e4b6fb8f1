// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "trace/write/trace_writer.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "trace/limits.h"
#include "trace/ring/ring_recovery.h"
#include "trace/write/packet_writer.h"

namespace gpumem {
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
