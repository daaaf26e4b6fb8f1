// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/replay/replayed_segments.h"

#include <gmock/gmock.h>

#include "loading/load_trace.h"
#include "testing/trace_builder.h"

namespace gpumem {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using testing::TraceBuilder;

constexpr int64_t kMiB = 1 << 20;
constexpr uint64_t kA = uint64_t{0x7f} << 32, kB = kA + 64 * kMiB, kC = kB + 64 * kMiB;

ReplayedSegments Read(TraceBuilder* trace) {
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
  trace.CudaAlloc(kA, 20 * kMiB).TorchAlloc(kA, 512).CudaAlloc(kB, 2 * kMiB).TorchAlloc(kB, 512);
  trace.TorchFree(kA, 512).CudaFree(kA).CudaAlloc(kC, 40 * kMiB).End();
  const ReplayedSegments read = Read(&trace);
  EXPECT_THAT(read.changes, ElementsAre(Pair(0, ElementsAre(20 * kMiB, 2 * kMiB, -20 * kMiB))))
      << "what holds no block is no segment";
  EXPECT_EQ(read.begin_ns, 0u);
}

// Of what came before the mark it counts what is there then, by size: fillers and order are the replay's own.
TEST(ReplayedSegmentsTest, TheBeginningHasNoOrder) {
  TraceBuilder trace;
  trace.CudaAlloc(kA, 20 * kMiB).TorchAlloc(kA, 512).CudaAlloc(kB, 2 * kMiB).TorchAlloc(kB, 512);
  trace.CudaAlloc(kC, 60 * kMiB).TorchAlloc(kC, 512).TorchFree(kC, 512).CudaFree(kC);
  Mark(&trace, kHistoryBegins);
  trace.CudaAlloc(kC, 40 * kMiB).TorchAlloc(kC, 512).TorchFree(kA, 512).CudaFree(kA).End();
  const ReplayedSegments read = Read(&trace);
  EXPECT_THAT(read.changes, ElementsAre(Pair(0, ElementsAre(2 * kMiB, 20 * kMiB, 40 * kMiB, -20 * kMiB))));
  EXPECT_GT(read.begin_ns, 0u);
}

// One recorder states a mapping as a whole, another one page by page.
TEST(ReplayedSegmentsTest, PagesOfOneRequestAreOne) {
  TraceBuilder trace;
  trace.Event(Driver(trace::ADDRESS_RESERVE, kA, 400 * kMiB, 0));
  Page(&trace, kA, 20 * kMiB, 1);
  Page(&trace, kA + 20 * kMiB, 20 * kMiB, 2);
  trace.TorchAlloc(kA, 30 * kMiB);
  Page(&trace, kA + 40 * kMiB, 20 * kMiB, 3);
  trace.TorchAlloc(kA + 30 * kMiB, 30 * kMiB).End();
  EXPECT_THAT(Read(&trace).changes, ElementsAre(Pair(0, ElementsAre(40 * kMiB, 20 * kMiB))));
}

}  // namespace
}  // namespace gpumem
