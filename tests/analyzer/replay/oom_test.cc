// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/oom.h"

#include <gtest/gtest.h>

#include "analyze_trace.h"
#include "testing/sizes.h"

namespace gpumem {
namespace {

using testing::kMiB;
using testing::TraceBuilder;

constexpr uint64_t kSegmentBase = 0x7f0000000000;

EventRow Failed(trace::Layer layer, uint64_t size, uint32_t thread = 1, int result = 2) {
  EventRow row;
  row.kind = trace::ALLOC_FAILED;
  row.layer = layer;
  row.device = 0;
  row.size = size;
  row.thread = thread;
  row.result = layer == trace::TORCH ? 0 : result;
  return row;
}

TraceBuilder Filled() {
  TraceBuilder trace;
  trace.Device(0, "GPU", 100 * kMiB);
  trace.CudaAlloc(kSegmentBase, 40 * kMiB).TorchAlloc(kSegmentBase, 30 * kMiB, 1);
  return trace;
}

TEST(OomTest, FoldsRetriesIntoTheReportOfPyTorch) {
  TraceBuilder trace = Filled();
  trace.Event(Failed(trace::RUNTIME, 80 * kMiB))
      .Event(Failed(trace::RUNTIME, 80 * kMiB))
      .Event(Failed(trace::TORCH, 80 * kMiB))
      .End();
  const Analysis analysis = AnalyzeTrace(trace);
  ASSERT_EQ(analysis.ooms.size(), 1u);
  const OomEvent& oom = analysis.ooms[0];
  EXPECT_EQ(oom.layer, trace::TORCH);
  EXPECT_EQ(oom.retries, 2u);
  EXPECT_TRUE(oom.final);
  EXPECT_EQ(oom.requested, 80 * kMiB);
  EXPECT_EQ(oom.device_total, 100 * kMiB);
  EXPECT_EQ(oom.values.reserved, 40 * kMiB);
  EXPECT_EQ(oom.fragmentation.largest_free_range, 10 * kMiB);
  EXPECT_EQ(oom.would_have_fit, 60 * kMiB);
  EXPECT_EQ(oom.live.bytes, 30 * kMiB);
}

TEST(OomTest, IsNotFinalWhereTheRetrySucceeded) {
  TraceBuilder trace = Filled();
  trace.Event(Failed(trace::RUNTIME, 20 * kMiB))
      .CudaAlloc(kSegmentBase + 100 * kMiB, 20 * kMiB)
      .TorchAlloc(kSegmentBase + 100 * kMiB, 20 * kMiB)
      .End();
  const Analysis analysis = AnalyzeTrace(trace);
  ASSERT_EQ(analysis.ooms.size(), 1u);
  EXPECT_FALSE(analysis.ooms[0].final);
}

TEST(OomTest, StandsAloneWithoutPyTorch) {
  TraceBuilder trace;
  trace.Event(Failed(trace::DRIVER, 20 * kMiB)).Event(Failed(trace::DRIVER, 10 * kMiB)).End();
  const Analysis analysis = AnalyzeTrace(trace);
  ASSERT_EQ(analysis.ooms.size(), 2u);
  EXPECT_TRUE(analysis.ooms[0].final);
  EXPECT_EQ(analysis.ooms[1].requested, 10 * kMiB);
}

TEST(OomTest, DoesNotFoldWhatAnotherThreadFailed) {
  TraceBuilder trace = Filled();
  trace.Event(Failed(trace::RUNTIME, 80 * kMiB, 2)).Event(Failed(trace::TORCH, 80 * kMiB, 1)).End();
  const Analysis analysis = AnalyzeTrace(trace);
  ASSERT_EQ(analysis.ooms.size(), 2u);
  EXPECT_EQ(analysis.ooms[1].retries, 0u);
}

EventRow Statement(trace::EventKind kind, uint64_t size, uint64_t requested_size) {
  EventRow row;
  row.kind = kind;
  row.device = 0;
  row.thread = 1;
  row.size = size;
  row.requested_size = requested_size;
  return row;
}

std::vector<OomStep::Kind> Kinds(const OomEvent& oom) {
  std::vector<OomStep::Kind> kinds;
  for (const OomStep& step : oom.steps) kinds.push_back(step.kind);
  return kinds;
}

TEST(OomTest, TellsTheChainStepByStep) {
  TraceBuilder trace = Filled();
  trace.CudaAlloc(kSegmentBase + 100 * kMiB, 20 * kMiB).TorchAlloc(kSegmentBase + 100 * kMiB, 20 * kMiB);
  trace.TorchFree(kSegmentBase + 100 * kMiB, 20 * kMiB);
  trace.Event(Failed(trace::RUNTIME, 80 * kMiB)).Event(Statement(trace::OOM_DEVICE, 30 * kMiB, 100 * kMiB));
  trace.CudaFree(kSegmentBase + 100 * kMiB);
  trace.Event(Failed(trace::RUNTIME, 80 * kMiB)).Event(Statement(trace::OOM_DEVICE, 50 * kMiB, 100 * kMiB));
  trace.Event(Failed(trace::TORCH, 75 * kMiB));
  trace.Event(Statement(trace::OOM_ALLOCATOR, 30 * kMiB, 40 * kMiB));
  trace.Event(Statement(trace::OOM_DEVICE, 50 * kMiB, 100 * kMiB)).TorchFree(kSegmentBase, 30 * kMiB).End();
  const Analysis analysis = AnalyzeTrace(trace);
  ASSERT_EQ(analysis.ooms.size(), 1u);
  const OomEvent& oom = analysis.ooms[0];
  using Kind = OomStep::Kind;
  EXPECT_EQ(Kinds(oom), (std::vector<Kind>{Kind::kFailed, Kind::kReleased, Kind::kFailed}));
  EXPECT_EQ(oom.steps[0].device_free, 30 * kMiB);
  EXPECT_EQ(oom.steps[1].bytes, 20 * kMiB);
  EXPECT_EQ(oom.steps[2].device_free, 50 * kMiB);
  EXPECT_EQ(oom.released, 20 * kMiB);
  EXPECT_EQ(oom.before.reserved, 60 * kMiB);
  EXPECT_EQ(oom.values.reserved, 40 * kMiB);
  EXPECT_EQ(oom.requested, 75 * kMiB);
  EXPECT_EQ(oom.cuda_requested, 80 * kMiB);
  EXPECT_EQ(oom.torch_reserved, 40 * kMiB);
  EXPECT_EQ(oom.device_free, 50 * kMiB);
  EXPECT_EQ(oom.would_have_fit, 50 * kMiB);
  EXPECT_EQ(oom.fit_in_one_piece, 60 * kMiB);
  EXPECT_EQ(oom.fit_expandable, 50 * kMiB);  // 30 MiB in two pages, the rest of them, and two more
  EXPECT_FALSE(oom.limited);
  EXPECT_EQ(oom.live.bytes, 30 * kMiB);
}

// A program's very first request: there is no segment yet that would show which kind PyTorch uses.
TEST(OomTest, ExpandableSegmentsAreKnownFromTheSettingsBeforeThereAreAny) {
  for (const bool asks : {false, true}) {
    TraceBuilder trace;
    (*trace.header().mutable_environment())["PYTORCH_CUDA_ALLOC_CONF"] = asks ? "expandable_segments:True" : "";
    trace.Device(0, "GPU", 100 * kMiB);
    trace.Event(Failed(trace::RUNTIME, 200 * kMiB)).Event(Statement(trace::OOM_DEVICE, 100 * kMiB, 100 * kMiB));
    trace.Event(Failed(trace::TORCH, 200 * kMiB)).End();
    const Analysis analysis = AnalyzeTrace(trace);
    ASSERT_EQ(analysis.ooms.size(), 1u);
    EXPECT_TRUE(analysis.ooms[0].described);
    EXPECT_EQ(analysis.ooms[0].expandable_segments, asks);
    EXPECT_EQ(analysis.ooms[0].fit_expandable.has_value(), !asks);
  }
}

TEST(OomTest, SettingsThatHadNoEffectAreNotBelieved) {
  TraceBuilder trace;
  (*trace.header().mutable_environment())["PYTORCH_ALLOC_CONF"] = "expandable_segments:True";
  trace.CudaAlloc(kSegmentBase, 40 * kMiB)
      .TorchAlloc(kSegmentBase, 40 * kMiB)
      .Event(Failed(trace::TORCH, 80 * kMiB))
      .End();
  EXPECT_FALSE(AnalyzeTrace(trace).ooms.at(0).expandable_segments);
}

TEST(OomTest, CountsWhatWasServedAfterARelease) {
  TraceBuilder trace = Filled();
  for (uint64_t i = 1; i <= 3; ++i) {
    const uint64_t cached = kSegmentBase + i * 1000 * kMiB, next = cached + 500 * kMiB;
    trace.CudaAlloc(cached, 40 * kMiB).TorchAlloc(cached, 40 * kMiB).TorchFree(cached, 40 * kMiB);
    trace.Event(Failed(trace::RUNTIME, 50 * kMiB)).CudaFree(cached);
    trace.CudaAlloc(next, 50 * kMiB).TorchAlloc(next, 50 * kMiB).TorchFree(next, 50 * kMiB).CudaFree(next);
  }
  trace.End();
  const Analysis analysis = AnalyzeTrace(trace);
  ASSERT_EQ(analysis.retries.size(), 1u);
  EXPECT_EQ(analysis.retries[0].count, 3u);
  EXPECT_EQ(analysis.retries[0].failed_calls, 3u);
  EXPECT_EQ(analysis.retries[0].released, 120 * kMiB);
  ASSERT_EQ(analysis.retries[0].stacks.size(), 1u);
  EXPECT_EQ(analysis.retries[0].stacks[0].count, 3u);
  ASSERT_EQ(analysis.ooms.size(), 3u);
  for (const OomEvent& oom : analysis.ooms) EXPECT_FALSE(oom.final);
}

// A request of 20 MiB that PyTorch refused by itself, while the device had 60.
TraceBuilder FailedAtALimit() {
  TraceBuilder trace = Filled();
  trace.Event(Failed(trace::TORCH, 20 * kMiB)).Event(Statement(trace::OOM_DEVICE, 60 * kMiB, 100 * kMiB));
  return trace;
}

EventRow Limit(uint64_t size) {
  EventRow row;
  row.kind = trace::TORCH_LIMIT;
  row.device = 0;
  row.size = size;
  return row;
}

TEST(OomTest, ALimitOfTheProgramsOwn) {
  TraceBuilder trace = FailedAtALimit();
  trace.End();
  const Analysis analysis = AnalyzeTrace(trace);
  ASSERT_EQ(analysis.ooms.size(), 1u);
  EXPECT_TRUE(analysis.ooms[0].limited);
  EXPECT_EQ(analysis.ooms[0].cuda_requested, 0u);
  EXPECT_EQ(analysis.ooms[0].limit, 0u);
  EXPECT_EQ(analysis.ooms[0].would_have_fit, 18 * kMiB);  // whatever the limit is, less than 20 MiB were left
  EXPECT_EQ(analysis.ooms[0].fit_expandable, 18 * kMiB);
}

TEST(OomTest, ALimitThatTheProgramNamesAsItEnds) {
  TraceBuilder trace = FailedAtALimit();
  trace.Event(Limit(55 * kMiB)).End();
  const Analysis analysis = AnalyzeTrace(trace);
  EXPECT_EQ(analysis.ooms.at(0).limit, 55 * kMiB);
  EXPECT_EQ(analysis.ooms[0].would_have_fit, 14 * kMiB);  // 15 MiB are left, of which a segment takes whole steps
}

TEST(OomTest, ALimitThatWasRaisedSinceExplainsNothing) {
  TraceBuilder trace = FailedAtALimit();
  trace.Event(Limit(90 * kMiB)).End();
  EXPECT_EQ(AnalyzeTrace(trace).ooms.at(0).limit, 0u);
}

TEST(OomTest, TheLastFailuresAreDescribed) {
  TraceBuilder trace = Filled();
  for (uint64_t i = 0; i < 200; ++i) trace.Event(Failed(trace::TORCH, (300 - i) * kMiB));
  trace.End();
  const Analysis analysis = AnalyzeTrace(trace);
  ASSERT_EQ(analysis.ooms.size(), 200u);
  EXPECT_FALSE(analysis.ooms.front().described);
  EXPECT_TRUE(analysis.ooms.back().described);
  EXPECT_EQ(analysis.ooms.back().live.bytes, 30 * kMiB);
}

TEST(OomTest, IsOnlyAboutMemory) {
  TraceBuilder trace = Filled();
  trace.Event(Failed(trace::RUNTIME, 80 * kMiB, 1, 900)).End();
  const Analysis analysis = AnalyzeTrace(trace);
  EXPECT_TRUE(analysis.ooms.empty());
}

}  // namespace
}  // namespace gpumem
