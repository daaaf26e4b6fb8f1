// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/stream_log.h"

#include <gmock/gmock.h>

#include "analyze_trace.h"
#include "testing/sizes.h"

namespace gpumem {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::kMiB;
using testing::TraceBuilder;

constexpr uint64_t kBase = 0x7f0000000000;
constexpr uint64_t kStreamWasTaken = 1, kRecordStream = 2, kMemPool = 3;

EventRow Use(uint64_t use, uint64_t stream, uint64_t stack) {
  EventRow row;
  row.kind = static_cast<trace::EventKind>(trace::ALLOCATOR_USE);
  row.layer = trace::LAYER_UNSPECIFIED;
  row.device = 0;
  row.handle = use;
  row.stream = stream;
  row.stack = stack;
  row.thread = 1;
  return row;
}

EventRow Block(uint64_t address, uint64_t size, uint64_t stream, uint64_t capture = 0) {
  EventRow row;
  row.kind = trace::ALLOC;
  row.layer = trace::TORCH;
  row.device = 0;
  row.address = address;
  row.size = size;
  row.stream = stream;
  row.handle = capture;
  row.thread = 1;
  return row;
}

EventRow Freed(uint64_t address, uint64_t size) {
  EventRow row = Block(address, size, 0);
  row.kind = trace::FREE;
  return row;
}

// A program's side of a trace: segments one behind the other.
class Program {
 public:
  Program() { trace_.Device(0, "GPU", 1000 * kMiB); }
  Program& Take(uint64_t stream, uint64_t stack = 0) {
    trace_.Event(Use(kStreamWasTaken, stream, stack));
    return *this;
  }
  Program& Note(uint64_t use) {
    trace_.Event(Use(use, 3, 0));
    return *this;
  }
  // A block in a segment of its own, and gone again.
  Program& Temporary(uint64_t stream, uint64_t capture = 0) {
    const uint64_t at = kBase + next_++ * 64 * kMiB;
    trace_.CudaAlloc(at, 32 * kMiB).Event(Block(at, 32 * kMiB, stream, capture)).Event(Freed(at, 32 * kMiB));
    return *this;
  }
  Program& Again(uint64_t segment, uint64_t stream, uint64_t capture = 0) {
    const uint64_t at = kBase + segment * 64 * kMiB;
    trace_.Event(Block(at, 32 * kMiB, stream, capture)).Event(Freed(at, 32 * kMiB));
    return *this;
  }
  Fragmentation Run() {
    const Analysis analysis = AnalyzeTrace(trace_.End());
    return analysis.devices.empty() ? Fragmentation{} : analysis.devices[0].fragmentation;
  }
  TraceBuilder& trace() { return trace_; }

 private:
  TraceBuilder trace_;
  uint64_t next_ = 0;
};

std::vector<std::vector<uint64_t>> StreamsOf(const Fragmentation& fragmentation) {
  std::vector<std::vector<uint64_t>> all;
  for (const StreamChain& chain : fragmentation.chains) all.push_back(chain.streams);
  return all;
}

TEST(StreamLogTest, EachStreamHasItsOwnCache) {
  // The last segment is whose block comes next: at the peak nobody's yet.
  const Fragmentation fragmentation = Program().Temporary(0).Temporary(7).Temporary(7).Temporary(0).Run();
  ASSERT_EQ(fragmentation.caches_at_peak.size(), 2u);
  EXPECT_EQ(fragmentation.caches_at_peak[0].stream, 7u);
  EXPECT_EQ(fragmentation.caches_at_peak[0].segments, 2u);
  EXPECT_EQ(fragmentation.caches_at_peak[0].reserved, 64 * kMiB);
  EXPECT_EQ(fragmentation.caches_at_peak[1].stream, 0u);
  EXPECT_THAT(fragmentation.chains, IsEmpty());
}

TEST(StreamLogTest, StreamsThatWereUsedOneAfterAnother) {
  EXPECT_THAT(StreamsOf(Program().Temporary(3).Temporary(0).Temporary(4).Temporary(5).Run()),
              ElementsAre(ElementsAre(3, 4, 5)));
  EXPECT_THAT(StreamsOf(Program().Temporary(3).Temporary(4).Temporary(5).Again(0, 3).Run()), IsEmpty())
      << "the first one is used again";
  EXPECT_THAT(StreamsOf(Program().Temporary(3).Temporary(4).Run()), IsEmpty()) << "two are few";
}

// PyTorch has 32 of a priority and gives them out in turns: the 33rd is the first.
TEST(StreamLogTest, ANewStreamEachTimeIsOneChainAlsoWhereTheyComeAgain) {
  Program program;
  const uint64_t stack = program.trace().PythonStack({{"sync", "train.py", 3}});
  for (int round = 0; round < 2; ++round) {
    for (const uint64_t stream : {3, 4, 5}) {
      program.Take(stream, stack);
      round == 0 ? program.Temporary(stream) : program.Again(stream - 3, stream);
    }
  }
  const Fragmentation fragmentation = program.Run();
  ASSERT_THAT(StreamsOf(fragmentation), ElementsAre(ElementsAre(3, 4, 5)));
  EXPECT_TRUE(fragmentation.chains[0].is_taken);
  EXPECT_EQ(fragmentation.chains[0].takes, 6u);
}

TEST(StreamLogTest, StreamsThatAreTakenTogetherAreNoChain) {
  Program program;
  const uint64_t stack = program.trace().PythonStack({{"sync", "train.py", 3}});
  program.Take(3, stack).Take(4, stack).Take(5, stack);
  EXPECT_THAT(StreamsOf(program.Temporary(3).Temporary(4).Temporary(5).Again(0, 3).Run()), IsEmpty());
}

TEST(StreamLogTest, CapturesThatShareASegmentShareAPool) {
  const Fragmentation fragmentation =
      Program().Temporary(9, 1).Temporary(9, 2).Again(0, 9, 2).Temporary(9, 3).Temporary(0).Run();
  ASSERT_EQ(fragmentation.caches_at_peak.size(), 2u);
  EXPECT_EQ(fragmentation.caches_at_peak[0].pool, 1u);
  EXPECT_EQ(fragmentation.caches_at_peak[0].segments, 2u);
  EXPECT_EQ(fragmentation.caches_at_peak[1].pool, 3u);
  EXPECT_THAT(fragmentation.chains, IsEmpty()) << "streams of captures";
}

TEST(StreamLogTest, WhatIsNotSeenInBlocksIsCounted) {
  const Fragmentation fragmentation =
      Program().Temporary(0).Note(kRecordStream).Note(kRecordStream).Note(kMemPool).Run();
  EXPECT_EQ(fragmentation.uses.record_streams, 2u);
  EXPECT_EQ(fragmentation.uses.mem_pools, 1u);
  EXPECT_EQ(fragmentation.at_peak.reserved, 32 * kMiB) << "changes no memory";
}

}  // namespace
}  // namespace gpumem
