// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/allocator/segment_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ledger/load/load_trace.h"
#include "testing/trace_builder.h"

namespace gpumem::plan {
namespace {

TEST(FirstDifferenceTest, NoneBetweenEquals) {
  EXPECT_FALSE(FirstDifference({}, {}).has_value());
  EXPECT_FALSE(FirstDifference({{0, {2, -2}}, {1, {}}}, {{0, {2, -2}}}).has_value());
}

TEST(FirstDifferenceTest, NamesThePlaceAndBothSides) {
  const auto differs = [](const SegmentChanges& recorded, const SegmentChanges& replayed) {
    const std::optional<SegmentDifference> first = FirstDifference(recorded, replayed);
    return first.has_value() ? std::vector<int64_t>{first->device, static_cast<int64_t>(first->index), first->recorded,
                                                    first->replayed}
                             : std::vector<int64_t>{};
  };
  EXPECT_EQ(differs({{0, {2, 20, -2}}}, {{0, {2, 22, -2}}}), (std::vector<int64_t>{0, 1, 20, 22}));
  EXPECT_EQ(differs({{0, {2, 20}}}, {{0, {2}}}), (std::vector<int64_t>{0, 1, 20, 0}));
  EXPECT_EQ(differs({{0, {2}}}, {{0, {2}}, {1, {4}}}), (std::vector<int64_t>{1, 0, 0, 4}));
}

TEST(CountTest, WhatCameAndWhatWent) {
  const SegmentCounts counts = Count({{0, {2, 20, -2}}, {1, {4}}});
  EXPECT_EQ(counts.got, 3u);
  EXPECT_EQ(counts.given_back, 1u);
}

using ::testing::ElementsAre;
using ::testing::Pair;
using testing::TraceBuilder;

constexpr int64_t kSignedMiB = 1 << 20;
constexpr uint64_t kReplayedA = uint64_t{0x7f} << 32, kReplayedB = kReplayedA + 64 * kSignedMiB,
                   kReplayedC = kReplayedB + 64 * kSignedMiB;

ReplayedSegments ReadReplayed(TraceBuilder* trace) {
  ReplayedSegments read;
  LoadRequest request;
  request.place = trace->WriteTemporary();
  request.resolves_stacks = false;
  request.look = [&](const OpenTrace& open) { read = ReadSegments(open); };
  const auto loaded = LoadTrace(request);
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  return read;
}

EventRow Driver(trace::EventKind kind, uint64_t address, uint64_t size, uint64_t handle) {
  EventRow row;
  row.kind = kind;
  row.layer = trace::DRIVER;
  row.memory = kind == trace::PHYSICAL_CREATE || kind == trace::PHYSICAL_RELEASE ? trace::PHYSICAL : trace::VIRTUAL;
  row.device = 0;
  row.address = address;
  row.size = size;
  row.handle = handle;
  return row;
}

void Page(TraceBuilder* trace, uint64_t address, uint64_t size, uint64_t handle) {
  trace->Event(Driver(trace::PHYSICAL_CREATE, 0, size, handle)).Event(Driver(trace::MAP, address, size, handle));
}

void Mark(TraceBuilder* trace, absl::string_view text) {
  EventRow row;
  row.kind = trace::MARK;
  row.text = trace->String(text);
  trace->Event(row);
}

TEST(ReplayedSegmentsTest, InTheirOrder) {
  TraceBuilder trace;
  trace.CudaAlloc(kReplayedA, 20 * kSignedMiB)
      .TorchAlloc(kReplayedA, 512)
      .CudaAlloc(kReplayedB, 2 * kSignedMiB)
      .TorchAlloc(kReplayedB, 512);
  trace.TorchFree(kReplayedA, 512).CudaFree(kReplayedA).CudaAlloc(kReplayedC, 40 * kSignedMiB).End();
  const ReplayedSegments read = ReadReplayed(&trace);
  EXPECT_THAT(read.changes, ElementsAre(Pair(0, ElementsAre(20 * kSignedMiB, 2 * kSignedMiB, -20 * kSignedMiB))))
      << "what holds no block is not a segment";
  EXPECT_EQ(read.begin_ns, 0u);
}

// Of what came before the mark it counts what is there then, by size: fillers and order are the replay's own.
TEST(ReplayedSegmentsTest, TheBeginningHasNoOrder) {
  TraceBuilder trace;
  trace.CudaAlloc(kReplayedA, 20 * kSignedMiB)
      .TorchAlloc(kReplayedA, 512)
      .CudaAlloc(kReplayedB, 2 * kSignedMiB)
      .TorchAlloc(kReplayedB, 512);
  trace.CudaAlloc(kReplayedC, 60 * kSignedMiB)
      .TorchAlloc(kReplayedC, 512)
      .TorchFree(kReplayedC, 512)
      .CudaFree(kReplayedC);
  Mark(&trace, kHistoryBegins);
  trace.CudaAlloc(kReplayedC, 40 * kSignedMiB)
      .TorchAlloc(kReplayedC, 512)
      .TorchFree(kReplayedA, 512)
      .CudaFree(kReplayedA)
      .End();
  const ReplayedSegments read = ReadReplayed(&trace);
  EXPECT_THAT(read.changes,
              ElementsAre(Pair(0, ElementsAre(2 * kSignedMiB, 20 * kSignedMiB, 40 * kSignedMiB, -20 * kSignedMiB))));
  EXPECT_GT(read.begin_ns, 0u);
}

// One recorder states a mapping as a whole, another one page by page.
TEST(ReplayedSegmentsTest, PagesOfOneRequestAreOne) {
  TraceBuilder trace;
  trace.Event(Driver(trace::ADDRESS_RESERVE, kReplayedA, 400 * kSignedMiB, 0));
  Page(&trace, kReplayedA, 20 * kSignedMiB, 1);
  Page(&trace, kReplayedA + 20 * kSignedMiB, 20 * kSignedMiB, 2);
  trace.TorchAlloc(kReplayedA, 30 * kSignedMiB);
  Page(&trace, kReplayedA + 40 * kSignedMiB, 20 * kSignedMiB, 3);
  trace.TorchAlloc(kReplayedA + 30 * kSignedMiB, 30 * kSignedMiB).End();
  EXPECT_THAT(ReadReplayed(&trace).changes, ElementsAre(Pair(0, ElementsAre(40 * kSignedMiB, 20 * kSignedMiB))));
}

}  // namespace

}  // namespace gpumem::plan
