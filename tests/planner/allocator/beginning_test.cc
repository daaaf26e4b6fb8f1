// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/allocator/beginning.h"

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "testing/sizes.h"

namespace gpumem::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::kMiB;

constexpr uint64_t kFirst = uint64_t{0x7f} << 32;

struct Thing {
  trace::EventKind kind;
  trace::Layer layer;
  uint64_t address, size, stream;
  bool is_torch;
  uint64_t handle = 0;
};

std::vector<LiveSnapshotBatch> Snapshot(const std::vector<Thing>& things) {
  trace::EventBatch events;
  LiveSnapshotBatch made;
  uint64_t before = 0;
  for (const Thing& thing : things) {
    if (thing.is_torch) made.torch_segments.push_back(events.count());
    events.set_count(events.count() + 1);
    events.add_time_delta_ns(0);
    events.add_kind(thing.kind);
    events.add_layer(thing.layer);
    events.add_device(0);
    events.add_address_delta(static_cast<int64_t>(thing.address - before));
    events.add_size(thing.size);
    events.add_stream(thing.stream);
    events.add_handle(thing.handle);
    before = thing.address;
  }
  EXPECT_TRUE(made.batch.Decode(events.SerializeAsString()).ok());
  return {made};
}

Thing Segment(uint64_t address, uint64_t size, uint64_t stream = 0) {
  return {trace::ALLOC, trace::RUNTIME, address, size, stream, true};
}
Thing Mapped(uint64_t address, uint64_t size) { return {trace::MAP, trace::DRIVER, address, size, 0, true}; }
Thing Block(uint64_t address, uint64_t size, uint64_t stream = 0, uint64_t pool = 0) {
  return {trace::ALLOC, trace::TORCH, address, size, stream, false, pool};
}

// The requests, with sizes in MiB. Each block's number is its address above kFirst, in MiB, and 100.
std::vector<std::string> Requests(const std::vector<Thing>& things) {
  const std::vector<BeginningRange> ranges = BeginningOf(Snapshot(things));
  absl::flat_hash_map<uint64_t, uint64_t> blocks;
  for (const Thing& thing : things) {
    if (thing.layer == trace::TORCH) blocks[thing.address] = 100 + (thing.address - kFirst) / kMiB;
  }
  std::vector<std::string> lines;
  Numbers numbers;
  WriteBeginning(ranges, blocks,
                 {[](uint64_t stream) { return static_cast<uint16_t>(stream); },
                  [](uint64_t pool) { return static_cast<uint32_t>(pool); }},
                 &numbers, [&](const Request& request) {
                   switch (request.kind) {
                     case RequestKind::kAlloc:
                       lines.push_back(absl::StrCat(request.block, "=", static_cast<double>(request.size) / kMiB));
                       if (request.stream != 0) absl::StrAppend(&lines.back(), " stream ", request.stream);
                       if (request.pool != 0) absl::StrAppend(&lines.back(), " pool ", request.pool);
                       break;
                     case RequestKind::kFree:
                       lines.push_back(absl::StrCat("-", request.block));
                       break;
                     case RequestKind::kPlace:
                       lines.push_back(absl::StrCat("at ", (request.size - kFirst) / kMiB));
                       break;
                     default:
                       lines.push_back(absl::StrCat("kind ", static_cast<int>(request.kind)));
                   }
                 });
  return lines;
}

TEST(BeginningTest, OfNothing) {
  EXPECT_THAT(BeginningOf({}), IsEmpty());
  EXPECT_THAT(Requests({Block(kFirst, kMiB)}), IsEmpty()) << "a block whose segment is not known has no place";
  EXPECT_THAT(BeginningOf(Snapshot({{trace::ALLOC, trace::RUNTIME, kFirst, kMiB, 0, false}})), IsEmpty())
      << "memory that is not PyTorch's";
}

TEST(BeginningTest, BlocksAndFillersBetweenThem) {
  EXPECT_THAT(
      Requests({Segment(kFirst, 20 * kMiB, 3), Block(kFirst + 4 * kMiB, 5 * kMiB, 3)}),
      ElementsAre("at 0", "0=20 stream 3", "-0", "1=4 stream 3", "104=5 stream 3", "2=11 stream 3", "-1", "-2"));
}

TEST(BeginningTest, ASegmentOfTheSmallPoolIsAskedForInSmallPieces) {
  EXPECT_THAT(Requests({Segment(kFirst, 2 * kMiB), Block(kFirst + kMiB, kMiB / 2)}),
              ElementsAre("at 0", "0=1", "1=1", "-0", "-1", "2=1", "101=0.5", "3=0.5", "-2", "-3"));
}

TEST(BeginningTest, AllSegmentsStandBeforeOneIsFilled) {
  EXPECT_THAT(Requests({Segment(kFirst, 20 * kMiB), Segment(kFirst + 64 * kMiB, 40 * kMiB),
                        Block(kFirst, 20 * kMiB, 0, 9), Block(kFirst + 64 * kMiB, 40 * kMiB)}),
              ElementsAre("at 0", "0=20 pool 9", "at 64", "1=40", "-0", "100=20 pool 9", "-1", "164=40"));
}

TEST(BeginningTest, PagesSideBySideAreOneRangeAndGapsBetweenRangesGoBack) {
  EXPECT_THAT(
      Requests({Mapped(kFirst, 20 * kMiB), Mapped(kFirst + 20 * kMiB, 20 * kMiB), Mapped(kFirst + 60 * kMiB, 20 * kMiB),
                Block(kFirst, 30 * kMiB, 5), Block(kFirst + 60 * kMiB, 20 * kMiB, 5)}),
      ElementsAre("100=30 stream 5", "0=10 stream 5", "1=20 stream 5", "160=20 stream 5", "-1", "kind 3", "-0"));
}

// A request for so little would be served from the small pool.
TEST(BeginningTest, ASmallHoleAmongLargeBlocksIsLeftByABlockThatShrinks) {
  EXPECT_THAT(Requests({Mapped(kFirst, 20 * kMiB), Block(kFirst, 4 * kMiB), Block(kFirst + 5 * kMiB, 15 * kMiB)}),
              ElementsAre("0=5", "105=15", "-0", "100=4"));
}

TEST(BeginningTest, WhatOverlapsOrReachesOutIsLeftOut) {
  const std::vector<BeginningRange> ranges =
      BeginningOf(Snapshot({Segment(kFirst, 20 * kMiB), Block(kFirst, 4 * kMiB), Block(kFirst + 2 * kMiB, 4 * kMiB),
                            Block(kFirst + 19 * kMiB, 4 * kMiB), Block(kFirst + 90 * kMiB, kMiB)}));
  ASSERT_EQ(ranges.size(), 1u);
  ASSERT_EQ(ranges[0].blocks.size(), 1u);
  EXPECT_EQ(ranges[0].blocks[0].address, kFirst);
}

}  // namespace
}  // namespace gpumem::plan
