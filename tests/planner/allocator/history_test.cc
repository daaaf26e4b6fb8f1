// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/allocator/history.h"

#include <gmock/gmock.h>

#include "ledger/load/load_trace.h"
#include "planner/allocator/request_file.h"
#include "requests.h"
#include "testing/sizes.h"
#include "testing/trace_builder.h"

namespace gpumem::plan {
namespace {

using ::testing::ElementsAre;
using testing::kMiB;
using testing::ReadRequests;
using testing::TraceBuilder;

constexpr uint64_t kA = uint64_t{0x7f} << 32, kB = kA + 64 * kMiB;

struct Told {
  HistoryFacts facts;
  std::vector<std::string> requests, beginning, anew;
};

Told Read(TraceBuilder* trace, const std::string& conf = "", uint64_t until_failure_ns = 0) {
  Told told;
  LoadRequest request;
  request.place = trace->WriteTemporary();
  request.resolves_stacks = false;
  const std::string path = request.place + ".requests";
  absl::Status status;
  request.look = [&](const OpenTrace& open) { status = ReadHistory(open, path, conf, until_failure_ns, &told.facts); };
  const auto loaded = LoadTrace(request);
  EXPECT_TRUE(loaded.ok() && status.ok()) << loaded.status() << status;
  told.requests = ReadRequests(path);
  told.beginning = ReadRequests(BeginningFile(path));
  told.anew = ReadRequests(AnewFile(path));
  return told;
}

EventRow Torch(trace::EventKind kind, uint64_t address, uint64_t size, uint64_t requested = 0, uint64_t stream = 0,
               uint64_t capture = 0) {
  EventRow row;
  row.kind = kind;
  row.layer = trace::TORCH;
  row.device = 0;
  row.address = address;
  row.size = size;
  row.requested_size = requested;
  row.stream = stream;
  row.handle = capture;
  row.thread = 1;
  return row;
}

EventRow Failed(uint64_t size) {
  EventRow row;
  row.kind = trace::ALLOC_FAILED;
  row.layer = trace::RUNTIME;
  row.device = 0;
  row.size = size;
  row.result = 2;
  row.thread = 1;
  return row;
}

TEST(HistoryTest, RequestsAsTheyWereMade) {
  TraceBuilder trace;
  trace.CudaAlloc(kA, 20 * kMiB).Event(Torch(trace::ALLOC, kA, 4096, 4000));
  trace.Event(Torch(trace::ALLOC, kA + 4096, 4096, 4096, 0x7000));
  trace.TorchFree(kA, 4096).Event(Torch(trace::ALLOC, kA, 512)).End();
  const Told told = Read(&trace);
  EXPECT_THAT(told.requests,
              ElementsAre("alloc 0 size=4000", "alloc 1 size=4096 stream=1", "free 0", "alloc 0 size=512"));
  EXPECT_EQ(told.facts.streams, (std::vector<uint64_t>{0, 0x7000}));
  EXPECT_EQ(told.facts.blocks, 2u);
  EXPECT_EQ(told.facts.rounded, 0u);  // a block of 512 bytes is one whatever was asked for
  EXPECT_EQ(told.facts.segments, (SegmentChanges{{0, {20 * static_cast<int64_t>(kMiB)}}}));
}

TEST(HistoryTest, WithoutARequestedSizeABlockAsksForItsOwn) {
  TraceBuilder trace;
  trace.CudaAlloc(kA, 20 * kMiB).TorchAlloc(kA, 3 * kMiB).TorchAlloc(kA + 4 * kMiB, 4096);
  trace.TorchFree(kA, 3 * kMiB).TorchAlloc(kA, 3 * kMiB).End();
  const Told told = Read(&trace);
  EXPECT_EQ(told.requests.front(), "alloc 0 size=3145728");
  EXPECT_EQ(told.facts.rounded, 3u);
  EXPECT_EQ(told.facts.rounded_large_most, 1u);
}

TEST(HistoryTest, MemoryOfOthersIsTakenToo) {
  TraceBuilder trace;
  trace.CudaAlloc(kA, 7 * kMiB).CudaAlloc(kB, 20 * kMiB).TorchAlloc(kB, 4096).CudaFree(kA).End();
  EXPECT_THAT(Read(&trace).requests, ElementsAre("outside 0 size=7340032", "alloc 1 size=4096", "outside_free 0"));
}

TEST(HistoryTest, SegmentsThatGoWithoutNeedAreAnEmptyCache) {
  TraceBuilder trace;
  trace.CudaAlloc(kA, 20 * kMiB).TorchAlloc(kA, 4096).CudaAlloc(kB, 20 * kMiB).TorchAlloc(kB, 8192);
  trace.TorchFree(kA, 4096).TorchFree(kB, 8192).CudaFree(kA).CudaFree(kB);
  trace.CudaAlloc(kA, 2 * kMiB).TorchAlloc(kA, 512).End();
  const Told told = Read(&trace);
  EXPECT_THAT(told.requests, ElementsAre("alloc 0 size=4096", "alloc 1 size=8192", "free 0", "free 1", "empty_cache 0",
                                         "alloc 1 size=512"));
  // With this setting the allocator itself makes room so, right before it asks CUDA.
  EXPECT_EQ(Read(&trace, "garbage_collection_threshold:0.8").facts.empty_caches, 0u);
}

TEST(HistoryTest, SegmentsThatGoForARequestAreNone) {
  TraceBuilder trace;
  trace.CudaAlloc(kA, 20 * kMiB).TorchAlloc(kA, 4096).TorchFree(kA, 4096);
  trace.Event(Failed(40 * kMiB)).CudaFree(kA).CudaAlloc(kB, 40 * kMiB).TorchAlloc(kB, 40 * kMiB);
  trace.Event(Failed(80 * kMiB)).Event(Torch(trace::ALLOC_FAILED, 0, 80 * kMiB, 80 * kMiB - 1)).End();
  const Told told = Read(&trace);
  EXPECT_THAT(told.requests,
              ElementsAre("alloc 0 size=4096", "free 0", "alloc 0 size=41943040", "failed 0 size=83886079"));
  EXPECT_EQ(told.facts.failed, 1u);
}

// Imports have no first call that fails.
TEST(HistoryTest, NorAreThoseThatGoForARequestThatFailsAllTheSame) {
  TraceBuilder trace;
  trace.CudaAlloc(kA, 20 * kMiB).TorchAlloc(kA, 4096).TorchFree(kA, 4096).CudaFree(kA);
  trace.Event(Torch(trace::ALLOC_FAILED, 0, 0, 80 * kMiB)).End();
  EXPECT_THAT(Read(&trace).requests, ElementsAre("alloc 0 size=4096", "free 0", "failed 0 size=83886080"));
}

TEST(HistoryTest, NothingBehindTheFailureThatIsAskedAbout) {
  TraceBuilder trace;
  trace.CudaAlloc(kA, 20 * kMiB).TorchAlloc(kA, 4096).AtTime(5000).Event(Torch(trace::ALLOC_FAILED, 0, 0, 80 * kMiB));
  trace.AtTime(6000).TorchFree(kA, 4096).Event(Torch(trace::ALLOC_FAILED, 0, 0, 90 * kMiB)).End();
  const Told told = Read(&trace, "", 5000);
  EXPECT_THAT(told.requests, ElementsAre("alloc 0 size=4096", "failed 0 size=83886080"));
  EXPECT_TRUE(told.facts.ends_with_failure);
  EXPECT_EQ(Read(&trace, "", 0).requests.size(), 4u);
}

TEST(HistoryTest, WhatWasThereBefore) {
  TraceBuilder trace;
  trace.FlushBatch();
  trace::Packet packet;
  packet.mutable_live_snapshot()->set_begins(true);
  trace::EventBatch* const batch = packet.mutable_live_snapshot()->mutable_events();
  batch->set_count(2);
  batch->set_first_time_ns(1000);
  for (const trace::Layer layer : {trace::RUNTIME, trace::TORCH}) {
    batch->add_time_delta_ns(0);
    batch->add_kind(trace::ALLOC);
    batch->add_layer(layer);
    batch->add_device(0);
    batch->add_stream(0x7000);
  }
  for (const uint64_t number : {kA, 4 * kMiB}) batch->add_address_delta(static_cast<int64_t>(number));
  for (const uint64_t size : {20 * kMiB, 6 * kMiB}) batch->add_size(size);
  packet.mutable_live_snapshot()->add_torch_segments(0);
  trace.Append(packet);
  trace.TorchFree(kA + 4 * kMiB, 6 * kMiB).End();
  const Told told = Read(&trace);
  EXPECT_THAT(told.requests, ElementsAre("free 0"));
  EXPECT_THAT(told.anew, ElementsAre("alloc 0 size=6291456 stream=1"));
  EXPECT_THAT(told.beginning, ElementsAre(absl::StrCat("place 0 size=", kA), "alloc 1 size=20971520 stream=1", "free 1",
                                          "alloc 2 size=4194304 stream=1", "alloc 0 size=6291456 stream=1",
                                          "alloc 3 size=10485760 stream=1", "free 2", "free 3"));
  EXPECT_EQ(told.facts.existing, 1u);
  EXPECT_EQ(told.facts.requests, 1u);
  EXPECT_FALSE(told.facts.begins_empty());
}

TEST(HistoryTest, EachCaptureHasAPrivatePool) {
  TraceBuilder trace;
  trace.CudaAlloc(kA, 20 * kMiB).Event(Torch(trace::ALLOC, kA, 512, 0, 7, 1));
  trace.CudaAlloc(kB, 20 * kMiB).Event(Torch(trace::ALLOC, kB, 512, 0, 7, 2)).End();
  EXPECT_THAT(Read(&trace).requests, ElementsAre("capture 1 pool=1", "alloc 0 size=512 stream=1 pool=1",
                                                 "capture 2 pool=2", "alloc 1 size=512 stream=1 pool=2"));
}

TEST(HistoryTest, CapturesWhoseBlocksShareASegmentShareThePool) {
  TraceBuilder trace;
  trace.CudaAlloc(kA, 20 * kMiB).Event(Torch(trace::ALLOC, kA, 512, 0, 7, 1));
  trace.CudaAlloc(kB, 20 * kMiB).Event(Torch(trace::ALLOC, kB, 512, 0, 7, 2));
  trace.Event(Torch(trace::ALLOC, kA + 512, 512, 0, 7, 2)).End();
  EXPECT_THAT(Read(&trace).requests,
              ElementsAre("capture 1 pool=1", "alloc 0 size=512 stream=1 pool=1", "capture 2 pool=1",
                          "alloc 1 size=512 stream=1 pool=1", "alloc 2 size=512 stream=1 pool=1"));
}

// A workspace is made in the first capture and used by all.
TEST(HistoryTest, WhatOneCaptureAloneMakesIsOfNone) {
  TraceBuilder trace;
  const uint64_t each = trace.PythonStack({{"forward", "model.py", 7}}),
                 once = trace.PythonStack({{"mm", "blas.py", 3}});
  const auto block = [&](uint64_t address, uint64_t capture, uint64_t stack) {
    EventRow row = Torch(trace::ALLOC, address, 512, 0, 7, capture);
    row.stack = stack;
    trace.Event(row);
  };
  trace.CudaAlloc(kA, 20 * kMiB);
  block(kA, 1, each);
  block(kA + 512, 1, once);
  block(kA + 1024, 2, each);
  trace.End();
  EXPECT_THAT(Read(&trace).requests,
              ElementsAre("capture 1 pool=1", "alloc 0 size=512 stream=1 pool=1", "capture 0 pool=1",
                          "alloc 1 size=512 stream=1 pool=1", "capture 2 pool=1", "alloc 2 size=512 stream=1 pool=1"));
}

// Imports say when a block that another stream still used was free at last.
TEST(HistoryTest, ABlockIsFreeWhenNoStreamUsesItAnyMore) {
  TraceBuilder trace;
  trace.CudaAlloc(kA, 20 * kMiB).TorchAlloc(kA, 512).TorchFree(kA, 512).TorchAlloc(kA + 512, 512);
  trace.Event(Torch(static_cast<trace::EventKind>(51), kA, 512)).TorchAlloc(kA, 512).TorchFree(kA, 512).End();
  EXPECT_THAT(Read(&trace).requests,
              ElementsAre("alloc 0 size=512", "alloc 1 size=512", "free 0", "alloc 0 size=512", "free 0"));
}

TEST(HistoryTest, WhatIsMissingIsCounted) {
  TraceBuilder trace;
  trace.CudaAlloc(kA, 20 * kMiB).TorchAlloc(kA, 4096).TorchFree(kA + 8192, 4096).End();
  EXPECT_EQ(Read(&trace).facts.unknown_frees, 1u);
  TraceBuilder with_gap(1);
  with_gap.WithoutPlaces();
  with_gap.CudaAlloc(kA, 20 * kMiB).TorchAlloc(kA, 4096).FlushBatch().SkipSequence();
  with_gap.TorchAlloc(kA + 4096, 4096).End();
  EXPECT_GE(Read(&with_gap).facts.gaps, 1u);
}

TEST(HistoryTest, ATraceWithoutPyTorchHasNoRequests) {
  TraceBuilder trace;
  trace.CudaAlloc(kA, kMiB).End();
  EXPECT_EQ(Read(&trace).facts.allocs, 0u);
}

}  // namespace
}  // namespace gpumem::plan
