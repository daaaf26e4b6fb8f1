// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/writer/event_batch.h"

#include <gtest/gtest.h>

#include "trace_decode.h"

namespace gpumemshim::writer {
namespace {

class EventBatchTest : public testing::Test {
 protected:
  EventBatchTest() { EXPECT_TRUE(batch_.Init()); }

  gpumem::trace::EventBatch Encode() {
    Buffer buffer;
    ProtoWriter w(&buffer);
    batch_.Encode(&w);
    EXPECT_TRUE(w.ok());
    gpumem::trace::EventBatch message;
    EXPECT_TRUE(message.ParseFromArray(buffer.data(), static_cast<int>(buffer.size())));
    return message;
  }

  EventBatch batch_;
};

TEST_F(EventBatchTest, ColumnsThatSayNothingAreAbsentOrOneElement) {
  for (uint64_t i = 0; i < 100; i++) {
    Event e{};
    e.time_ns = 1000 + i * i;
    e.kind = EventKind::kAlloc;
    e.layer = Layer::kTorch;
    e.size = 512 * (i + 1);
    e.address = 0x7f0000000000 + 2048 * i;
    batch_.Add(e, 3, 0, 0);
  }
  gpumem::trace::EventBatch m = Encode();
  EXPECT_EQ(m.count(), 100u);
  EXPECT_EQ(m.kind_size(), 1);
  EXPECT_EQ(m.thread_size(), 1);
  EXPECT_EQ(m.device_size(), 0);
  EXPECT_EQ(m.stack_size(), 0);
  EXPECT_EQ(m.size_shift(), 9u);
  EXPECT_EQ(m.size(0), 1u);
  EXPECT_EQ(m.address_shift(), 11u);
  EXPECT_EQ(m.time_shift(), 5u);
  EXPECT_EQ(m.first_time_ns(), 992u);
  EXPECT_EQ(m.time_delta_ns(0), 0);
  EXPECT_EQ(m.time_delta_ns(99), ((1000 + 99 * 99) >> 5) - ((1000 + 98 * 98) >> 5));
}

TEST_F(EventBatchTest, ExtremesSurvive) {
  const uint64_t values[] = {0, UINT64_MAX, 1, uint64_t{1} << 63, 0};
  for (uint64_t v : values) {
    Event e{};
    e.time_ns = 5;
    e.address = e.size = e.requested_size = e.stream = e.handle = v;
    e.result = static_cast<int32_t>(v);
    e.device = v == 1 ? kNoDevice : int16_t{0};
    batch_.Add(e, 1, static_cast<uint32_t>(v), static_cast<uint32_t>(v));
  }
  std::vector<Row> rows;
  ASSERT_TRUE(Rows(Encode(), &rows));
  ASSERT_EQ(rows.size(), 5u);
  for (size_t i = 0; i < 5; i++) {
    EXPECT_EQ(rows[i].address, values[i]);
    EXPECT_EQ(rows[i].size, values[i]);
    EXPECT_EQ(rows[i].handle, values[i]);
    EXPECT_EQ(rows[i].stack, static_cast<uint32_t>(values[i]));
    EXPECT_EQ(rows[i].result, static_cast<int32_t>(values[i]));
    EXPECT_EQ(rows[i].device, values[i] == 1 ? -1 : 0);
  }
}

TEST_F(EventBatchTest, WhatIsRareIsTrueOfTheEventsBeforeAndAfterIt) {
  for (int round = 0; round < 2; round++) {  // the second in memory that the first has used
    Event plain{};
    plain.time_ns = 5;
    for (int i = 0; i < 3; i++) batch_.Add(plain, 1, 2, 3);
    Event rare = plain;
    rare.handle = 7;
    rare.duration_ns = 9;
    batch_.Add(rare, 1, 2, 3);
    batch_.Add(plain, 1, 2, 3);
    std::vector<Row> rows;
    ASSERT_TRUE(Rows(Encode(), &rows));
    ASSERT_EQ(rows.size(), 5u);
    for (size_t i = 0; i < 5; i++) {
      EXPECT_EQ(rows[i].handle, i == 3 ? 7u : 0u);
      EXPECT_EQ(rows[i].duration_ns, i == 3 ? 9u : 0u);
    }
    batch_.Clear();
    for (int i = 0; i < 5; i++) batch_.Add(rare, 1, 2, 3);  // leaves the columns full
    batch_.Clear();
    batch_.Add(plain, 1, 2, 3);
    EXPECT_EQ(Encode().handle_size(), 0);
    batch_.Clear();
  }
}

TEST_F(EventBatchTest, OneEventAndAFullBatch) {
  Event e{};
  e.address = 77;
  e.time_ns = 96;
  batch_.Add(e, 1, 2, 3);
  std::vector<Row> rows;
  ASSERT_TRUE(Rows(Encode(), &rows));
  EXPECT_EQ(rows[0].address, 77u);
  EXPECT_EQ(rows[0].time_ns, 96u);
  while (!batch_.full()) batch_.Add(e, 1, 2, 3);
  rows.clear();
  ASSERT_TRUE(Rows(Encode(), &rows));
  ASSERT_EQ(rows.size(), EventBatch::kMaxEvents);
  EXPECT_EQ(rows.back().address, 77u);
}

}  // namespace
}  // namespace gpumemshim::writer
