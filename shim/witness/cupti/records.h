// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Records of CUPTI's buffers, read without its headers: CUDA 11.8 writes CUpti_ActivityMemory2 or 3, CUDA 13
// CUpti_ActivityMemory4, and CUpti_ActivityMemoryPool to 3 likewise. Each version begins with all of the one before,
// and what is read here is in the first. A test compares the places with the headers that the build has.
//
// Thread-safety: pure. Failure: false for a record of another kind.
//
//   Record record;
//   if (ReadRecord(bytes, &record)) Keep(record);

#ifndef GPUMEM_SHIM_WITNESS_CUPTI_RECORDS_H_
#define GPUMEM_SHIM_WITNESS_CUPTI_RECORDS_H_

#include <cstddef>
#include <cstdint>

#include "shim/base/proto_writer.h"

namespace gpumemshim::cupti {

inline constexpr uint32_t kKindMemory2 = 49;
inline constexpr uint32_t kKindMemoryPool = 50;

// CUPTI 18 came with CUDA 11.8, the oldest whose records are known here.
inline constexpr uint32_t kOldestVersion = 18;

// Byte offsets in CUpti_ActivityMemory2 and its successors.
struct MemoryPlaces {
  enum : size_t {
    kOperation = 4,
    kMemory = 8,
    kCorrelation = 12,
    kAddress = 16,
    kBytes = 24,
    kTimestamp = 32,
    kDevice = 52,
    kContext = 56,
    kStream = 60,
    kPoolAddress = 88,
  };
};
// In CUpti_ActivityMemoryPool and its successors.
struct PoolPlaces {
  enum : size_t {
    kOperation = 4,
    kCorrelation = 12,
    kDevice = 20,
    kAddress = 32,
    kSize = 40,
    kTimestamp = 56,
  };
};

struct Record {
  uint64_t address = 0;
  uint64_t bytes = 0;
  uint64_t time_ns = 0;  // on CUPTI's clock, as read
  uint64_t pool_address = 0;
  uint32_t operation = 0;
  uint32_t memory = 0;
  uint32_t correlation = 0;
  uint32_t device = 0;
  uint32_t context = 0;
  uint32_t stream = 0;
  bool pool = false;
};

bool ReadRecord(const void* bytes, Record* record);

// Cupti packets of the trace (proto/gpumem/trace.proto).

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

#endif  // GPUMEM_SHIM_WITNESS_CUPTI_RECORDS_H_
