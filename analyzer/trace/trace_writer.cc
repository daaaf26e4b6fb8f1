// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "trace/trace_writer.h"

#include <algorithm>

#include "base/status_macros.h"
#include "trace/packet_writer.h"
#include "trace/ring_recovery.h"

namespace gpumem {
namespace {

constexpr uint32_t kFormatVersionWritten = 1;  // no chained codec

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
  for (size_t begin = 0; begin < rows.size(); begin += BatchEncoder::kMaxEvents) {
    const size_t end = std::min(rows.size(), begin + BatchEncoder::kMaxEvents);
    BatchEncoder part;
    for (size_t i = begin; i < end; ++i) part.Add(rows[i]);
    trace::Packet packet;
    trace::LiveSnapshot* const snapshot = packet.mutable_live_snapshot();
    snapshot->mutable_events()->ParseFromString(part.Serialize());
    snapshot->set_begins(begin == 0);
    for (const uint32_t row : torch_segments) {
      if (row >= begin && row < end) snapshot->add_torch_segments(row - static_cast<uint32_t>(begin));
    }
    GPUMEM_RETURN_IF_ERROR(WriteCompressed(packet));
  }
  return status_;
}

absl::Status TraceWriter::WriteBatch() {
  GPUMEM_RETURN_IF_ERROR(WriteDefinitions());
  if (batch_.count() == 0) return status_;
  trace::Packet packet;
  packet.mutable_events()->ParseFromString(batch_.Serialize());
  batch_.Clear();
  return WriteCompressed(packet);
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
