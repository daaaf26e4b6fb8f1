// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "trace/event_batch.h"

#include <gtest/gtest.h>

#include <string>

namespace gpumem {
namespace {

TEST(EventBatchTest, SumsDeltasAndShifts) {
  trace::EventBatch message;
  message.set_count(3);
  message.set_first_time_ns(1000);
  message.set_time_shift(3);
  for (const int64_t delta : {0, 10, -5}) message.add_time_delta_ns(delta);
  message.set_address_shift(9);
  for (const int64_t delta : {1000, 1, -2}) message.add_address_delta(delta);
  message.set_size_shift(4);
  for (const uint64_t size : {1u, 2u, 1000000u}) message.add_size(size);
  message.add_kind(trace::ALLOC);
  message.add_device(-1);
  EventBatch batch;
  ASSERT_TRUE(batch.Decode(message.SerializeAsString()).ok());
  ASSERT_EQ(batch.count(), 3u);
  EXPECT_EQ(batch.time_ns(1), 1080u);
  EXPECT_EQ(batch.time_ns(2), 1040u);
  EXPECT_EQ(batch.address(0), 1000u << 9);
  EXPECT_EQ(batch.address(2), 999u << 9);
  EXPECT_EQ(batch.size(2), 16000000u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(batch.kind(i), static_cast<uint32_t>(trace::ALLOC));
    EXPECT_EQ(batch.device(i), -1);
    EXPECT_EQ(batch.Row(i).stack, 0u);
  }
}

TEST(EventBatchTest, OneDeltaStandsForAll) {
  trace::EventBatch message;
  message.set_count(4);
  message.add_address_delta(7);
  EventBatch batch;
  ASSERT_TRUE(batch.Decode(message.SerializeAsString()).ok());
  EXPECT_EQ(batch.address(0), 7u);
  EXPECT_EQ(batch.address(3), 28u);
}

TEST(EventBatchTest, ForgetsTheBatchBefore) {
  trace::EventBatch message;
  message.set_count(1);
  message.add_size(5);
  EventBatch batch;
  ASSERT_TRUE(batch.Decode(message.SerializeAsString()).ok());
  message.clear_size();
  ASSERT_TRUE(batch.Decode(message.SerializeAsString()).ok());
  EXPECT_EQ(batch.size(0), 0u);
}

TEST(EventBatchTest, RefusesColumnsOfAnotherLength) {
  trace::EventBatch message;
  message.set_count(3);
  message.add_size(1);
  message.add_size(2);
  EventBatch batch;
  EXPECT_EQ(batch.Decode(message.SerializeAsString()).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(batch.count(), 0u);
}

TEST(EventBatchTest, RefusesCountsOutOfProportion) {
  trace::EventBatch message;
  message.set_count(1u << 20);
  EventBatch batch;
  EXPECT_EQ(batch.Decode(message.SerializeAsString()).code(), absl::StatusCode::kDataLoss);
}

TEST(EventBatchTest, RefusesShiftsOutOfRange) {
  trace::EventBatch message;
  message.set_count(1);
  message.set_size_shift(64);
  EventBatch batch;
  EXPECT_EQ(batch.Decode(message.SerializeAsString()).code(), absl::StatusCode::kDataLoss);
}

TEST(EventBatchTest, SkipsUnknownFields) {
  trace::EventBatch message;
  message.set_count(1);
  message.add_size(5);
  const std::string bytes = message.SerializeAsString() + std::string("\xfa\x01\x02xy", 5);
  EventBatch batch;
  ASSERT_TRUE(batch.Decode(bytes).ok());
  EXPECT_EQ(batch.size(0), 5u);
}

}  // namespace
}  // namespace gpumem
