// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/oom.h"

#include <gtest/gtest.h>

#include "analyze_trace.h"

namespace gpumem {
namespace {

using testing::TraceBuilder;

constexpr uint64_t kMiB = 1u << 20;
constexpr uint64_t kBase = 0x7f0000000000;

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
  trace.CudaAlloc(kBase, 40 * kMiB).TorchAlloc(kBase, 30 * kMiB, 1);
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
      .CudaAlloc(kBase + 100 * kMiB, 20 * kMiB)
      .TorchAlloc(kBase + 100 * kMiB, 20 * kMiB)
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

TEST(OomTest, IsOnlyAboutMemory) {
  TraceBuilder trace = Filled();
  trace.Event(Failed(trace::RUNTIME, 80 * kMiB, 1, 900)).End();
  const Analysis analysis = AnalyzeTrace(trace);
  EXPECT_TRUE(analysis.ooms.empty());
}

}  // namespace
}  // namespace gpumem
