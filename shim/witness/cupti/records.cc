// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/witness/cupti/records.h"

#include <string.h>

#include "shim/writer/fields.h"

namespace gpumemshim::cupti {
namespace {

template <typename Value>
Value At(const void* bytes, size_t place) {
  Value value;
  memcpy(&value, static_cast<const char*>(bytes) + place, sizeof value);
  return value;
}

}  // namespace

bool ReadRecord(const void* bytes, Record* record) {
  *record = {};
  const uint32_t kind = At<uint32_t>(bytes, 0);
  if (kind == kKindMemory2) {
    record->operation = At<uint32_t>(bytes, MemoryPlaces::kOperation);
    record->memory = At<uint32_t>(bytes, MemoryPlaces::kMemory);
    record->correlation = At<uint32_t>(bytes, MemoryPlaces::kCorrelation);
    record->address = At<uint64_t>(bytes, MemoryPlaces::kAddress);
    record->bytes = At<uint64_t>(bytes, MemoryPlaces::kBytes);
    record->time_ns = At<uint64_t>(bytes, MemoryPlaces::kTimestamp);
    record->device = At<uint32_t>(bytes, MemoryPlaces::kDevice);
    record->context = At<uint32_t>(bytes, MemoryPlaces::kContext);
    record->stream = At<uint32_t>(bytes, MemoryPlaces::kStream);
    record->pool_address = At<uint64_t>(bytes, MemoryPlaces::kPoolAddress);
    return true;
  }
  if (kind != kKindMemoryPool) return false;
  record->pool = true;
  record->operation = At<uint32_t>(bytes, PoolPlaces::kOperation);
  record->correlation = At<uint32_t>(bytes, PoolPlaces::kCorrelation);
  record->device = At<uint32_t>(bytes, PoolPlaces::kDevice);
  record->address = At<uint64_t>(bytes, PoolPlaces::kAddress);
  record->bytes = At<uint64_t>(bytes, PoolPlaces::kSize);
  record->time_ns = At<uint64_t>(bytes, PoolPlaces::kTimestamp);
  return true;
}

namespace fields = writer::fields;

PacketMarks BeginPacket(const Report& report, ProtoWriter* w) {
  using Field = fields::Cupti;
  const size_t packet = w->Open(fields::Trace::kPacket);
  const size_t message = w->Open(fields::Packet::kCupti);
  w->VarintIf(Field::kState, static_cast<uint64_t>(report.status));
  w->StringIf(Field::kLibrary, report.library);
  w->VarintIf(Field::kVersion, report.version);
  w->VarintIf(Field::kError, static_cast<uint64_t>(static_cast<int64_t>(report.error)));
  w->VarintIf(Field::kBeganNs, report.began_ns);
  w->VarintIf(Field::kCompleteUntilNs, report.complete_until_ns);
  w->VarintIf(Field::kEndedNs, report.ended_ns);
  w->VarintIf(Field::kDroppedRecords, report.dropped);
  w->VarintIf(Field::kLostRecords, report.lost);
  w->VarintIf(Field::kUnknownRecords, report.unknown);
  return {packet, message};
}

void PutRecord(const Record& record, ProtoWriter* w) {
  using Field = fields::CuptiRecord;
  const size_t mark = w->Open(fields::Cupti::kRecords);
  w->VarintIf(Field::kPool, record.pool ? 1 : 0);
  w->VarintIf(Field::kOperation, record.operation);
  w->VarintIf(Field::kMemory, record.memory);
  w->VarintIf(Field::kCorrelation, record.correlation);
  w->VarintIf(Field::kAddress, record.address);
  w->VarintIf(Field::kBytes, record.bytes);
  w->VarintIf(Field::kTimeNs, record.time_ns);
  w->VarintIf(Field::kDevice, record.device);
  w->VarintIf(Field::kContext, record.context);
  w->VarintIf(Field::kStream, record.stream);
  w->VarintIf(Field::kPoolAddress, record.pool_address);
  w->Close(mark);
}

void EndPacket(PacketMarks marks, ProtoWriter* w) {
  w->Close(marks.message);
  w->Close(marks.packet);
}

}  // namespace gpumemshim::cupti
