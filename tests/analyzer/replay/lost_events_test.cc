// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Peaks of a trace whose recorder could not keep all events: never below what PyTorch itself said, never above what the
// program held, and said to be the least where something is missing.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "analyze_trace.h"
#include "testing/sizes.h"
#include "testing/trace_builder.h"

namespace gpumem {
namespace {

using testing::kMiB;
using testing::kSegment;
using testing::TraceBuilder;

uint64_t LostBlock(uint64_t i) { return kSegment + i * kMiB; }

// 8 blocks of 1 MiB in a segment of 64.
class LostEventsTest : public ::testing::Test {
 protected:
  LostEventsTest() : trace_(/*batch_events=*/100) {
    trace_.CudaAlloc(kSegment, 64 * kMiB);
    for (uint64_t i = 0; i < 8; ++i) trace_.TorchAlloc(LostBlock(i), kMiB);
    trace_.FlushBatch();
  }

  void Totals(uint64_t allocated, uint64_t reserved) {
    trace::Counters counters;
    counters.set_time_ns(trace_.time_ns());
    trace::DeviceCounters* const device = counters.add_devices();
    device->set_torch_allocated_bytes(allocated);
    device->set_torch_reserved_bytes(reserved);
    trace_.Counters(counters);
  }

  void Dropped(uint64_t allocs, uint64_t frees, uint64_t unwritten = 0) {
    trace::Losses losses;
    losses.set_dropped_allocs(allocs);
    losses.set_dropped_frees(frees);
    losses.set_unwritten_events(unwritten);
    trace_.Losses(losses);
  }

  DeviceAnalysis Answer() {
    Analysis analysis = AnalyzeTrace(trace_.End());
    EXPECT_EQ(analysis.devices.size(), 1u);
    return analysis.devices.empty() ? DeviceAnalysis() : analysis.devices[0];
  }

  TraceBuilder trace_;
};

TEST_F(LostEventsTest, AWholeTraceIsExact) {
  Totals(8 * kMiB, 64 * kMiB);
  Dropped(0, 0);
  const DeviceAnalysis device = Answer();
  EXPECT_EQ(device.bound, PeakBound::kExact);
  EXPECT_EQ(device.peak_allocated.bytes, 8 * kMiB);
}

TEST_F(LostEventsTest, PyTorchsTotalIsThePeakWhereAllocationsWereDropped) {
  trace_.TorchAlloc(LostBlock(20), kMiB);
  Totals(14 * kMiB, 66 * kMiB);
  Dropped(6, 0);
  trace_.TorchFree(LostBlock(20), kMiB);
  const DeviceAnalysis device = Answer();
  EXPECT_EQ(device.bound, PeakBound::kAtLeast);
  EXPECT_EQ(device.peak_allocated.bytes, 14 * kMiB);
  EXPECT_EQ(device.peak_reserved.bytes, 66 * kMiB);
  EXPECT_GE(device.peak_total.bytes, 66 * kMiB);
  EXPECT_EQ(device.at_peak_allocated.bytes, 14 * kMiB) << "5 of them of no known origin";
  EXPECT_EQ(device.end.allocated, 13 * kMiB) << "PyTorch's total, less what was freed since";
}

// The last totals come behind the last event.
TEST_F(LostEventsTest, TotalsAtTheVeryEndCount) {
  Dropped(3, 0);
  Totals(11 * kMiB, 64 * kMiB);
  EXPECT_EQ(Answer().peak_allocated.bytes, 11 * kMiB);
}

// What PyTorch says is above the replay, though nothing is said to be lost.
TEST_F(LostEventsTest, ATotalAboveAllThatWasCountedIsNoExactPeak) {
  Totals(9 * kMiB, 64 * kMiB);
  const DeviceAnalysis device = Answer();
  EXPECT_EQ(device.peak_allocated.bytes, 9 * kMiB);
  EXPECT_EQ(device.bound, PeakBound::kAtLeast);
}

// 8 MiB live, 6 of them freed unseen: 10 more are 12, not 18.
TEST_F(LostEventsTest, DroppedFreesMakeNoPeak) {
  for (uint64_t i = 20; i < 30; ++i) trace_.TorchAlloc(LostBlock(i), kMiB);
  Totals(12 * kMiB, 64 * kMiB);
  Dropped(0, 6);
  for (uint64_t i = 30; i < 34; ++i) trace_.TorchAlloc(LostBlock(i), kMiB);
  const DeviceAnalysis device = Answer();
  EXPECT_EQ(device.bound, PeakBound::kAtLeast);
  EXPECT_EQ(device.peak_allocated.bytes, 12 * kMiB) << "what PyTorch said; nothing is sure of the 4 that follow";
  EXPECT_LE(device.end.allocated, device.peak_allocated.bytes);
  for (const TimelinePoint& point : device.timeline) EXPECT_LE(point.max.allocated, device.peak_allocated.bytes);
}

// A disk that is full for a while takes allocations and frees alike.
TEST_F(LostEventsTest, WhatTheFileCouldNotTakeMayBeFrees) {
  for (uint64_t i = 20; i < 30; ++i) trace_.TorchAlloc(LostBlock(i), kMiB);
  Dropped(0, 0, 40);
  Totals(10 * kMiB, 64 * kMiB);
  const DeviceAnalysis device = Answer();
  EXPECT_EQ(device.peak_allocated.bytes, 10 * kMiB);
  EXPECT_EQ(device.bound, PeakBound::kAtLeast);
}

TEST_F(LostEventsTest, WithoutTotalsThePeakIsTheOneFromBefore) {
  for (uint64_t i = 20; i < 30; ++i) trace_.TorchAlloc(LostBlock(i), kMiB);
  Dropped(0, 6);
  const DeviceAnalysis device = Answer();
  EXPECT_EQ(device.peak_allocated.bytes, 8 * kMiB);
  EXPECT_EQ(device.bound, PeakBound::kAtLeast);
}

// A segment counts as other memory while no block in it is known; PyTorch's total has it already.
TEST_F(LostEventsTest, ASegmentWithLostBlocksCountsOnce) {
  trace_.CudaAlloc(kSegment << 1, 32 * kMiB);
  Totals(12 * kMiB, 96 * kMiB);
  Dropped(4, 0);
  trace_.TorchAlloc((kSegment << 1) + kMiB, kMiB);
  const DeviceAnalysis device = Answer();
  EXPECT_EQ(device.peak_allocated.bytes, 13 * kMiB);
  EXPECT_EQ(device.peak_reserved.bytes, 96 * kMiB);
  EXPECT_EQ(device.peak_total.bytes, 96 * kMiB);
  EXPECT_EQ(device.end.reserved, 96 * kMiB);
  EXPECT_EQ(device.end.total, 96 * kMiB);
}

TEST_F(LostEventsTest, AFailedRequestCarriesTotalsToo) {
  EventRow row;
  row.kind = trace::ALLOC_FAILED;
  row.layer = trace::TORCH;
  row.device = 0;
  row.size = 1 << 30;
  trace_.Event(row);
  row.kind = trace::OOM_ALLOCATOR;
  row.size = 20 * kMiB;
  row.requested_size = 64 * kMiB;
  trace_.Event(row);
  Dropped(12, 0);
  const DeviceAnalysis device = Answer();
  EXPECT_EQ(device.peak_allocated.bytes, 20 * kMiB);
  EXPECT_EQ(device.bound, PeakBound::kAtLeast);
}

// Nobody states a total of what is not PyTorch's.
TEST(LostEventsOfCudaTest, AreAboutWhatTheyWere) {
  TraceBuilder trace(4);
  for (uint64_t i = 0; i < 8; ++i) trace.CudaAlloc(kSegment + i * kMiB, kMiB);
  trace::Losses losses;
  losses.set_dropped_frees(5);
  trace.Losses(losses);
  const Analysis analysis = AnalyzeTrace(trace.End());
  ASSERT_EQ(analysis.devices.size(), 1u);
  EXPECT_EQ(analysis.devices[0].bound, PeakBound::kAbout);
  EXPECT_EQ(analysis.devices[0].peak_total.bytes, 8 * kMiB);
}

// Blocks whose segments nobody recorded are in the total all the same.
TEST(BlocksWithoutSegmentsTest, AreMemoryOfTheDevice) {
  TraceBuilder trace;
  for (uint64_t i = 0; i < 79; ++i) trace.TorchAlloc(kSegment + i * kMiB, kMiB);
  const Analysis analysis = AnalyzeTrace(trace.End());
  ASSERT_EQ(analysis.devices.size(), 1u);
  EXPECT_EQ(analysis.devices[0].peak_total.bytes, 79 * kMiB);
  EXPECT_EQ(analysis.devices[0].end.total, 79 * kMiB);
}

}  // namespace
}  // namespace gpumem
