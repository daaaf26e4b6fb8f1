// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/witness/cupti/encode.h"

#include "shim/writer/fields.h"

namespace gpumemshim::cupti {

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
