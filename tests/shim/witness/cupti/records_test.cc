// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/witness/cupti/records.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>

// Some of CUDA's headers come without CUPTI's.
#if __has_include(<cupti_activity.h>) && __has_include(<cupti_result.h>)
#define GPUMEM_HAS_CUPTI_HEADERS 1
#include <cuda.h>
//
#include <cupti_activity.h>
#endif

namespace gpumemshim::cupti {
namespace {

void Put32(unsigned char* bytes, size_t place, uint32_t value) { std::memcpy(bytes + place, &value, sizeof value); }
void Put64(unsigned char* bytes, size_t place, uint64_t value) { std::memcpy(bytes + place, &value, sizeof value); }

TEST(RecordsTest, ReadsARecordOfMemory) {
  unsigned char bytes[112] = {};  // the oldest, without what later versions added
  Put32(bytes, 0, 49);
  Put32(bytes, 4, 2);
  Put32(bytes, 8, 3);
  Put32(bytes, 12, 77);
  Put64(bytes, 16, 0x7f0000000000);
  Put64(bytes, 24, 4096);
  Put64(bytes, 32, 123456789);
  Put32(bytes, 52, 1);
  Put32(bytes, 56, 5);
  Put32(bytes, 60, 7);
  Put64(bytes, 88, 0xabc);
  Record record;
  ASSERT_TRUE(ReadRecord(bytes, &record));
  EXPECT_FALSE(record.pool);
  EXPECT_EQ(record.operation, 2u);
  EXPECT_EQ(record.memory, 3u);
  EXPECT_EQ(record.correlation, 77u);
  EXPECT_EQ(record.address, 0x7f0000000000u);
  EXPECT_EQ(record.bytes, 4096u);
  EXPECT_EQ(record.time_ns, 123456789u);
  EXPECT_EQ(record.device, 1u);
  EXPECT_EQ(record.context, 5u);
  EXPECT_EQ(record.stream, 7u);
  EXPECT_EQ(record.pool_address, 0xabcu);
}

TEST(RecordsTest, ReadsARecordOfAPool) {
  unsigned char bytes[64] = {};
  Put32(bytes, 0, 50);
  Put32(bytes, 4, 3);
  Put32(bytes, 12, 78);
  Put32(bytes, 20, 2);
  Put64(bytes, 32, 0xdef);
  Put64(bytes, 40, 1 << 20);
  Put64(bytes, 56, 42);
  Record record;
  ASSERT_TRUE(ReadRecord(bytes, &record));
  EXPECT_TRUE(record.pool);
  EXPECT_EQ(record.operation, 3u);
  EXPECT_EQ(record.correlation, 78u);
  EXPECT_EQ(record.device, 2u);
  EXPECT_EQ(record.address, 0xdefu);
  EXPECT_EQ(record.bytes, 1u << 20);
  EXPECT_EQ(record.time_ns, 42u);
}

TEST(RecordsTest, LeavesOtherKindsAlone) {
  unsigned char bytes[128] = {};
  Put32(bytes, 0, 3);  // a kernel
  Record record;
  EXPECT_FALSE(ReadRecord(bytes, &record));
}

#ifdef GPUMEM_HAS_CUPTI_HEADERS
template <typename Memory>
void ExpectMemoryPlaces() {
  EXPECT_EQ(offsetof(Memory, memoryOperationType), MemoryPlaces::kOperation);
  EXPECT_EQ(offsetof(Memory, memoryKind), MemoryPlaces::kMemory);
  EXPECT_EQ(offsetof(Memory, correlationId), MemoryPlaces::kCorrelation);
  EXPECT_EQ(offsetof(Memory, address), MemoryPlaces::kAddress);
  EXPECT_EQ(offsetof(Memory, bytes), MemoryPlaces::kBytes);
  EXPECT_EQ(offsetof(Memory, timestamp), MemoryPlaces::kTimestamp);
  EXPECT_EQ(offsetof(Memory, deviceId), MemoryPlaces::kDevice);
  EXPECT_EQ(offsetof(Memory, contextId), MemoryPlaces::kContext);
  EXPECT_EQ(offsetof(Memory, streamId), MemoryPlaces::kStream);
  EXPECT_EQ(offsetof(Memory, memoryPoolConfig.address), MemoryPlaces::kPoolAddress);
}
template <typename Pool>
void ExpectPoolPlaces() {
  EXPECT_EQ(offsetof(Pool, memoryPoolOperationType), PoolPlaces::kOperation);
  EXPECT_EQ(offsetof(Pool, correlationId), PoolPlaces::kCorrelation);
  EXPECT_EQ(offsetof(Pool, deviceId), PoolPlaces::kDevice);
  EXPECT_EQ(offsetof(Pool, address), PoolPlaces::kAddress);
  EXPECT_EQ(offsetof(Pool, size), PoolPlaces::kSize);
  EXPECT_EQ(offsetof(Pool, timestamp), PoolPlaces::kTimestamp);
}
#endif

TEST(RecordsTest, PlacesAreThoseOfEachVersion) {
#ifdef GPUMEM_HAS_CUPTI_HEADERS
  EXPECT_EQ(kKindMemory2, static_cast<uint32_t>(CUPTI_ACTIVITY_KIND_MEMORY2));
  EXPECT_EQ(kKindMemoryPool, static_cast<uint32_t>(CUPTI_ACTIVITY_KIND_MEMORY_POOL));
  ExpectMemoryPlaces<CUpti_ActivityMemory2>();
  ExpectMemoryPlaces<CUpti_ActivityMemory3>();
  ExpectMemoryPlaces<CUpti_ActivityMemory4>();
  ExpectPoolPlaces<CUpti_ActivityMemoryPool>();
  ExpectPoolPlaces<CUpti_ActivityMemoryPool2>();
  ExpectPoolPlaces<CUpti_ActivityMemoryPool3>();
  // As simcuda/stubs/src/cupti_activity.cc makes them.
  EXPECT_EQ(sizeof(CUpti_ActivityMemory2), 112u);
  EXPECT_EQ(sizeof(CUpti_ActivityMemory3), 120u);
  EXPECT_EQ(sizeof(CUpti_ActivityMemory4), 128u);
  EXPECT_EQ(sizeof(CUpti_ActivityMemoryPool), 64u);
  EXPECT_EQ(sizeof(CUpti_ActivityMemoryPool2), 72u);
  EXPECT_EQ(sizeof(CUpti_ActivityMemoryPool3), 80u);
#else
  GTEST_SKIP() << "no headers of CUPTI here. scripts/bootstrap --all fetches them";
#endif
}

}  // namespace
}  // namespace gpumemshim::cupti
