// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What is said of memory where packets are missing from the file: what is known, since when it is unsure, and what
// PyTorch's own totals make right again.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "analyze_trace.h"
#include "testing/sizes.h"
#include "testing/trace_builder.h"

namespace gpumem {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kMiB;
using testing::kSegment;
using testing::TraceBuilder;

uint64_t Block(uint64_t i) { return kSegment + i * kMiB; }

class GapTest : public ::testing::Test {
 protected:
  GapTest() : trace_(/*batch_events=*/100) {
    trace_.CudaAlloc(kSegment, 64 * kMiB);
    for (uint64_t i = 0; i < 8; ++i) trace_.TorchAlloc(Block(i), kMiB);
    trace_.FlushBatch();
  }

  // What follows is in packets that are cut out.
  void BeginGap() { gap_from_ = trace_.Bytes().size(); }
  void EndGap() { gap_to_ = trace_.Bytes().size(); }

  void Totals(uint64_t allocated, uint64_t reserved) {
    trace::Counters counters;
    counters.set_time_ns(trace_.time_ns());
    trace::DeviceCounters* const device = counters.add_devices();
    device->set_torch_allocated_bytes(allocated);
    device->set_torch_reserved_bytes(reserved);
    trace_.Counters(counters);
  }

  Analysis Answer(const AnalyzeOptions& options = {}) {
    std::string bytes = trace_.End().Bytes();
    bytes.erase(gap_from_, gap_to_ - gap_from_);
    const std::string path = trace_.WriteTemporary();
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    absl::StatusOr<Analysis> analysis = Analyze(path, options);
    std::remove(path.c_str());
    EXPECT_TRUE(analysis.ok()) << analysis.status();
    return analysis.ok() ? *std::move(analysis) : Analysis{};
  }

  TraceBuilder trace_;
  size_t gap_from_ = 0, gap_to_ = 0;
};

TEST_F(GapTest, IsCountedAndDated) {
  const uint64_t before = trace_.time_ns();
  BeginGap();
  for (uint64_t i = 0; i < 4; ++i) trace_.TorchFree(Block(i), kMiB);
  EndGap();
  trace_.TorchAlloc(Block(20), kMiB);
  const Analysis analysis = Answer();
  ASSERT_EQ(analysis.gaps.size(), 1u);
  EXPECT_EQ(analysis.gaps[0].packets, 1u);
  EXPECT_TRUE(analysis.gaps[0].events_known);
  EXPECT_EQ(analysis.gaps[0].events, 4u);
  EXPECT_EQ(analysis.gaps[0].from_ns, before);
  EXPECT_EQ(analysis.gaps[0].to_ns, trace_.time_ns());
  EXPECT_EQ(analysis.unsure_from_ns, before);
  EXPECT_EQ(analysis.losses.missing_events, 4u);
  EXPECT_EQ(analysis.losses.Total(), 4u);
  EXPECT_THAT(analysis.damage, HasSubstr("packets are missing"));
  EXPECT_TRUE(analysis.complete);
}

TEST_F(GapTest, OfAnOlderWriterIsOfUnknownSize) {
  TraceBuilder trace;
  trace.WithoutPlaces().CudaAlloc(kSegment, kMiB).FlushBatch().SkipSequence().CudaFree(kSegment).End();
  const Analysis analysis = AnalyzeTrace(trace);
  ASSERT_EQ(analysis.gaps.size(), 1u);
  EXPECT_FALSE(analysis.gaps[0].events_known);
  EXPECT_NE(analysis.unsure_from_ns, 0u);
  EXPECT_NE(analysis.damage, "");
}

TEST_F(GapTest, WithoutEventsLeavesNumbersSure) {
  BeginGap();
  trace_.String("a name");
  trace_.FlushBatch();
  EndGap();
  trace_.TorchAlloc(Block(20), kMiB);
  Totals(9 * kMiB, 64 * kMiB);
  const Analysis analysis = Answer();
  ASSERT_EQ(analysis.gaps.size(), 1u);
  EXPECT_EQ(analysis.gaps[0].events, 0u);
  EXPECT_EQ(analysis.unsure_from_ns, 0u);
  EXPECT_NE(analysis.damage, "");
  EXPECT_EQ(analysis.devices[0].peak_allocated.bytes, 9 * kMiB);
}

// 8 MiB live; 6 are freed unseen. 4 more would be a peak of 12, but are 6.
TEST_F(GapTest, FreesInItMakeNoPeakOncePyTorchSaidItsTotals) {
  BeginGap();
  for (uint64_t i = 0; i < 6; ++i) trace_.TorchFree(Block(i), kMiB);
  EndGap();
  trace_.TorchAlloc(Block(20), kMiB);
  Totals(3 * kMiB, 64 * kMiB);
  for (uint64_t i = 21; i < 24; ++i) trace_.TorchAlloc(Block(i), kMiB);
  const Analysis analysis = Answer();
  EXPECT_EQ(analysis.devices[0].peak_allocated.bytes, 8 * kMiB);
  EXPECT_EQ(analysis.devices[0].end.allocated, 6 * kMiB);
  EXPECT_EQ(analysis.devices[0].end.reserved, 64 * kMiB);
}

// What lay there before the gap ended in it: to see it end once more changes nothing.
TEST_F(GapTest, ABlockThatEndedInItIsNotTakenOffTwice) {
  BeginGap();
  for (uint64_t i = 0; i < 6; ++i) trace_.TorchFree(Block(i), kMiB);
  EndGap();
  trace_.TorchAlloc(Block(20), kMiB);
  Totals(3 * kMiB, 64 * kMiB);
  for (uint64_t i = 0; i < 6; ++i) trace_.TorchAlloc(Block(i), kMiB);
  const Analysis analysis = Answer();
  EXPECT_EQ(analysis.devices[0].end.allocated, 9 * kMiB);
  EXPECT_EQ(analysis.devices[0].leaks.at_end_torch.bytes, 9 * kMiB);
  EXPECT_EQ(analysis.devices[0].peak_allocated.bytes, 9 * kMiB);
}

// The same where the new one begins between theirs, and lies over five of the six.
TEST_F(GapTest, BlocksUnderANewOneEndedInIt) {
  BeginGap();
  for (uint64_t i = 0; i < 6; ++i) trace_.TorchFree(Block(i), kMiB);
  EndGap();
  trace_.TorchAlloc(Block(20), kMiB);
  Totals(3 * kMiB, 64 * kMiB);
  trace_.TorchAlloc(Block(0) + kMiB / 2, 4 * kMiB);
  const Analysis analysis = Answer();
  const DeviceAnalysis& device = analysis.devices[0];
  EXPECT_EQ(device.end.allocated, 7 * kMiB);
  EXPECT_EQ(device.peak_allocated.bytes, 8 * kMiB) << "before it";
  EXPECT_EQ(device.leaks.at_end_torch.block_count, 5u) << "5, 6, 7, 20 and the new one";
}

TEST_F(GapTest, AllocationsInItCountOncePyTorchSaidItsTotals) {
  BeginGap();
  for (uint64_t i = 30; i < 35; ++i) trace_.TorchAlloc(Block(i), kMiB);
  EndGap();
  trace_.TorchAlloc(Block(20), kMiB);
  Totals(14 * kMiB, 64 * kMiB);
  trace_.TorchAlloc(Block(21), kMiB);
  for (uint64_t i = 30; i < 33; ++i) trace_.TorchFree(Block(i), kMiB);
  const Analysis analysis = Answer();
  const DeviceAnalysis& device = analysis.devices[0];
  EXPECT_EQ(device.peak_allocated.bytes, 15 * kMiB);
  EXPECT_EQ(device.at_peak_allocated.bytes, 15 * kMiB) << "5 of them of no known origin";
  EXPECT_EQ(device.end.allocated, 12 * kMiB);
  EXPECT_EQ(device.leaks.at_end_torch.bytes, 12 * kMiB);
  EXPECT_EQ(device.leaks.unknown_frees, 3u);
}

TEST_F(GapTest, BeforePyTorchSaidItsTotalsNothingIsAPeak) {
  BeginGap();
  for (uint64_t i = 0; i < 6; ++i) trace_.TorchFree(Block(i), kMiB);
  EndGap();
  for (uint64_t i = 20; i < 24; ++i) trace_.TorchAlloc(Block(i), kMiB);
  EXPECT_EQ(Answer().devices[0].peak_allocated.bytes, 8 * kMiB);
}

TEST_F(GapTest, TotalsFromBeforeItSayNothing) {
  Totals(8 * kMiB, 64 * kMiB);
  BeginGap();
  for (uint64_t i = 0; i < 6; ++i) trace_.TorchFree(Block(i), kMiB);
  EndGap();
  trace_.TorchAlloc(Block(20), kMiB);
  Totals(3 * kMiB, 64 * kMiB);
  EXPECT_EQ(Answer().devices[0].end.allocated, 3 * kMiB);
}

TEST_F(GapTest, ASegmentThatWasFreedInItIsNoLongerReserved) {
  BeginGap();
  for (uint64_t i = 0; i < 8; ++i) trace_.TorchFree(Block(i), kMiB);
  trace_.CudaFree(kSegment).CudaAlloc(kSegment << 1, 2 * kMiB).TorchAlloc(kSegment << 1, kMiB);
  EndGap();
  trace_.TorchAlloc((kSegment << 1) + kMiB, kMiB);
  Totals(2 * kMiB, 2 * kMiB);
  trace_.TorchFree((kSegment << 1) + kMiB, kMiB);
  const Analysis analysis = Answer();
  EXPECT_EQ(analysis.devices[0].end.allocated, kMiB);
  EXPECT_EQ(analysis.devices[0].end.reserved, 2 * kMiB);
  EXPECT_EQ(analysis.devices[0].end.total, 2 * kMiB);
}

TEST_F(GapTest, AWholeTraceHasNone) {
  const Analysis analysis = Answer();
  EXPECT_THAT(analysis.gaps, IsEmpty());
  EXPECT_EQ(analysis.unsure_from_ns, 0u);
  EXPECT_EQ(analysis.damage, "");
}

}  // namespace
}  // namespace gpumem
