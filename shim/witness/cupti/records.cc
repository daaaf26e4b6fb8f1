// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/witness/cupti/records.h"

#include <string.h>

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

}  // namespace gpumemshim::cupti
