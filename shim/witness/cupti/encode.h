// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Cupti packets of the trace (proto/gpumem/trace.proto).

#ifndef GPUMEM_SHIM_WITNESS_CUPTI_ENCODE_H_
#define GPUMEM_SHIM_WITNESS_CUPTI_ENCODE_H_

#include <cstdint>

#include "shim/base/proto_writer.h"
#include "shim/witness/cupti/records.h"

namespace gpumemshim::cupti {

// CuptiState of trace.proto.
enum class Status : uint32_t {
  kUnknown = 0,
  kRecording = 1,
  kNoLibrary = 2,
  kOtherSubscriber = 3,
  kFailed = 4,
  kEnded = 5,
};

// All but the records; times on CLOCK_MONOTONIC.
struct Report {
  Status status = Status::kUnknown;
  const char* library = "";
  uint32_t version = 0;
  int error = 0;
  uint64_t began_ns = 0;
  uint64_t complete_until_ns = 0;
  uint64_t ended_ns = 0;
  uint64_t dropped = 0;
  uint64_t lost = 0;
  uint64_t unknown = 0;
};

// Opens a packet and its message; EndPacket closes both.
struct PacketMarks {
  size_t packet, message;
};
PacketMarks BeginPacket(const Report& report, ProtoWriter* w);
void PutRecord(const Record& record, ProtoWriter* w);
void EndPacket(PacketMarks marks, ProtoWriter* w);

}  // namespace gpumemshim::cupti

#endif  // GPUMEM_SHIM_WITNESS_CUPTI_ENCODE_H_
