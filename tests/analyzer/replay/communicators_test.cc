// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/state/communicators.h"

#include <gtest/gtest.h>

#include <map>

#include "analyze_trace.h"
#include "testing/sizes.h"

namespace gpumem {
namespace {

constexpr uint64_t kBegin = 1'000'000'000, kFirstAddress = 0x7f0000000000;

EventRow MakingOf(uint64_t number, bool ended, uint32_t thread, uint64_t time_ns, uint64_t ranks = 0, int64_t rank = -1,
                  int device = 0) {
  EventRow row;
  row.kind = static_cast<trace::EventKind>(trace::COMMUNICATOR);
  row.device = device;
  row.handle = number;
  row.size = ended ? 1 : 0;
  row.requested_size = ranks;
  row.stream = static_cast<uint64_t>(rank + 1);
  row.thread = thread;
  row.time_ns = time_ns;
  return row;
}

EventRow AllocBy(uint64_t place, uint32_t thread, uint64_t time_ns, uint64_t size) {
  EventRow row;
  row.kind = trace::ALLOC;
  row.layer = trace::DRIVER;
  row.device = 0;
  row.address = kFirstAddress + (place << 30);
  row.size = size;
  row.thread = thread;
  row.time_ns = time_ns;
  return row;
}

// Bytes at the end by communicator and thread.
std::map<std::pair<uint32_t, uint32_t>, uint64_t> BytesOfMakers(const Analysis& analysis) {
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> bytes;
  for (const StackUse& use : analysis.devices.at(0).breakdown_at_end.other)
    bytes[{use.communicator, use.thread}] += use.bytes;
  return bytes;
}

TEST(Communicators, WhatIsAllocatedWhileOneIsMadeIsItsMemory) {
  testing::TraceBuilder trace;
  trace.Device(0, "GPU", 1000 * testing::kMiB);
  trace.Event(AllocBy(0, 1, kBegin, 2 * testing::kMiB));
  trace.Event(MakingOf(1, false, 1, kBegin + 1, 8, 3));
  trace.Event(AllocBy(1, 1, kBegin + 2, 4 * testing::kMiB));
  trace.Event(AllocBy(2, 9, kBegin + 3, 8 * testing::kMiB));  // a thread of NCCL's own
  trace.Event(MakingOf(1, true, 1, kBegin + 4, 8, 3));
  trace.Event(AllocBy(3, 1, kBegin + 5, 16 * testing::kMiB));
  trace.End();
  const Analysis analysis = AnalyzeTrace(trace);
  const std::map<std::pair<uint32_t, uint32_t>, uint64_t> expected = {
      {{0, 1}, 18 * testing::kMiB}, {{1, 1}, 4 * testing::kMiB}, {{1, 9}, 8 * testing::kMiB}};
  EXPECT_EQ(BytesOfMakers(analysis), expected);
  ASSERT_EQ(analysis.communicators.size(), 1u);
  EXPECT_EQ(analysis.communicators[0].ranks, 8u);
  EXPECT_EQ(analysis.communicators[0].rank, 3);
}

TEST(Communicators, ASplitSaysItsRanksWhenItIsMade) {
  testing::TraceBuilder trace;
  trace.Device(0, "GPU", 1000 * testing::kMiB);
  trace.Event(AllocBy(0, 1, kBegin, 2 * testing::kMiB))
      .Event(MakingOf(2, false, 1, kBegin + 1))
      .Event(MakingOf(2, true, 1, kBegin + 2, 4, 1));
  trace.End();
  const Analysis analysis = AnalyzeTrace(trace);
  ASSERT_EQ(analysis.communicators.size(), 1u);
  EXPECT_EQ(analysis.communicators[0].number, 2u);
  EXPECT_EQ(analysis.communicators[0].ranks, 4u);
}

TEST(OpenCommunicators, OfTwoAtOnceTheThreadSaysWhich) {
  OpenCommunicators open;
  open.Apply(MakingOf(1, false, 1, 0));
  open.Apply(MakingOf(2, false, 2, 0));
  EXPECT_EQ(open.MakerOf(1, SlotOfDevice(0)), 1u);
  EXPECT_EQ(open.MakerOf(2, SlotOfDevice(0)), 2u);
  EXPECT_EQ(open.MakerOf(3, SlotOfDevice(0)), 0u) << "not sure";
  open.Apply(MakingOf(2, true, 2, 0));
  EXPECT_EQ(open.MakerOf(3, SlotOfDevice(0)), 1u);
}

TEST(OpenCommunicators, OfTwoDevicesTheDeviceSaysWhich) {
  OpenCommunicators open;
  open.Apply(MakingOf(1, false, 1, 0, 2, 0, 0));
  open.Apply(MakingOf(2, false, 2, 0, 2, 1, 1));
  EXPECT_EQ(open.MakerOf(3, SlotOfDevice(0)), 1u);
  EXPECT_EQ(open.MakerOf(3, SlotOfDevice(1)), 2u);
}

TEST(OpenCommunicators, AThreadThatMakesTheNextOneHasMadeTheLast) {
  OpenCommunicators open;
  open.Apply(MakingOf(1, false, 1, 0));
  open.Apply(MakingOf(2, false, 1, 0));
  EXPECT_EQ(open.MakerOf(3, SlotOfDevice(0)), 2u);
  open.Apply(MakingOf(2, true, 1, 0));
  EXPECT_EQ(open.MakerOf(1, SlotOfDevice(0)), 0u);
}

}  // namespace
}  // namespace gpumem
