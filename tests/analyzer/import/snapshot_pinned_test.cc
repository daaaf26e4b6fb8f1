// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "import/snapshot_pinned.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "imported.h"
#include "pickle_builder.h"
#include "testing/sizes.h"

namespace gpumem {
namespace {

using pickled::Block;
using pickled::Dict;
using pickled::Entry;
using pickled::Frame;
using pickled::Int;
using pickled::List;
using pickled::PickleOf;
using pickled::Segment;
using pickled::Text;
using pickled::Value;
using ::testing::Contains;
using ::testing::HasSubstr;
using testing::kMiB;
using ::testing::Not;

constexpr uint64_t kHost = 0x7e0000000000;

// A segment of the host allocator: one block.
Value Pinned(uint64_t at, uint64_t size, const std::string& state, const std::vector<Value>& frames = {}) {
  return Segment(kHost + at, size, "small", {Block(kHost + at, size, size, state, frames)});
}

Value OnHost(const std::string& action, uint64_t at, uint64_t size, uint64_t time_us,
             const std::vector<Value>& frames = {}) {
  return Entry(action, kHost + at, size, time_us, frames);
}

std::string HostSnapshot(const std::vector<Value>& segments, const std::vector<Value>& entries,
                         const std::vector<Value>& gpu_segments = {}, const std::vector<Value>& gpu_entries = {}) {
  return PickleOf(Dict({{"segments", List(gpu_segments)},
                        {"device_traces", List({List(gpu_entries)})},
                        {"host_segments", List(segments)},
                        {"host_traces", List(entries)}}));
}

TEST(SnapshotPinnedTest, PinnedUntilItsSegmentGoes) {
  ImportResult result;
  const auto analysis = Import(
      HostSnapshot(
          {Pinned(0, 4 * kMiB, "inactive")},
          {OnHost("segment_alloc", 0, 4 * kMiB, 10), OnHost("alloc", 0, 4 * kMiB, 10, {Frame("a.py", "f", 1)}),
           OnHost("segment_alloc", 1 << 30, 8 * kMiB, 11),
           OnHost("alloc", 1 << 30, 8 * kMiB, 11, {Frame("b.py", "g", 2)}), OnHost("free_requested", 0, 4 * kMiB, 12),
           OnHost("free_completed", 0, 4 * kMiB, 15), OnHost("free_requested", 1 << 30, 8 * kMiB, 16),
           OnHost("free_completed", 1 << 30, 8 * kMiB, 16), OnHost("segment_free", 1 << 30, 8 * kMiB, 17)}),
      &result);
  ASSERT_TRUE(analysis.ok()) << analysis.status();
  EXPECT_EQ(analysis->host_pinned_peak, 12 * kMiB);
  EXPECT_EQ(analysis->host_pinned_end, 4 * kMiB);
  EXPECT_TRUE(analysis->devices.empty());
  EXPECT_EQ(analysis->events.runtime,
            5u);  // two made; one goes to the cache, which is a free and an allocation; one goes
  EXPECT_EQ(result.covers, "run");
  EXPECT_THAT(result.notes, Contains(HasSubstr("4 MiB at the end, of which 4 MiB were free in its cache")));
}

// The history has a block that was pinned before and is used again, and one that was let go.
TEST(SnapshotPinnedTest, WhatWasPinnedBeforeFollowsFromTheEnd) {
  ImportResult result;
  const auto analysis =
      Import(HostSnapshot({Pinned(0, 2 * kMiB, "active_allocated", {Frame("a.py", "f", 1)}),
                           Pinned(1 << 30, 32 * kMiB, "active_pending_free", {Frame("b.py", "g", 2)})},
                          {OnHost("segment_free", 1 << 28, 64 * kMiB, 10), OnHost("alloc", 0, 2 * kMiB, 11)}),
             &result);
  ASSERT_TRUE(analysis.ok()) << analysis.status();
  EXPECT_EQ(analysis->host_pinned_peak, 98 * kMiB);
  EXPECT_EQ(analysis->host_pinned_end, 34 * kMiB);
  EXPECT_EQ(result.covers, "window");
  EXPECT_THAT(result.notes, Contains(HasSubstr("The history of pinned memory begins with 98 MiB.")));
  EXPECT_THAT(result.notes, Not(Contains(HasSubstr("contradict"))));
}

TEST(SnapshotPinnedTest, GpuMemoryOfOneMomentIsInNoNumberOfATime) {
  const Value gpu =
      Segment(0x7f0000000000, 2 * kMiB, "small", {Block(0x7f0000000000, 2 * kMiB, 0, "active_allocated")});
  ImportResult result;
  const auto alone = Import(HostSnapshot({Pinned(0, kMiB, "active_allocated")},
                                         {OnHost("segment_alloc", 0, kMiB, 10), OnHost("alloc", 0, kMiB, 10)}, {gpu}),
                            &result);
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_EQ(alone->host_pinned_peak, kMiB);
  EXPECT_TRUE(alone->devices.empty());
  EXPECT_EQ(result.devices, 0u);
  EXPECT_THAT(result.notes, Contains(HasSubstr("Of GPUs the snapshot has its last moment, 1 block, 2 MiB")));
  // Without any history both are of that moment.
  const auto moment = Import(HostSnapshot({Pinned(0, kMiB, "active_allocated")}, {}, {gpu}), &result);
  ASSERT_TRUE(moment.ok()) << moment.status();
  EXPECT_EQ(moment->host_pinned_end, kMiB);
  EXPECT_EQ(moment->devices.size(), 1u);
  EXPECT_EQ(result.covers, "moment");
}

TEST(SnapshotPinnedTest, ContradictionsAreSaidAndNothingIsNegative) {
  ImportResult result;
  const auto analysis =
      Import(HostSnapshot({}, {OnHost("alloc", 0, kMiB, 1), OnHost("alloc", 0, kMiB, 2),
                               OnHost("segment_free", 77, kMiB, 3), OnHost("segment_free", 77, kMiB, 4),
                               OnHost("segment_alloc", 99, kMiB, 5), OnHost("oom", 99, kMiB, 6)}),
             &result);
  ASSERT_TRUE(analysis.ok()) << analysis.status();
  EXPECT_LE(analysis->host_pinned_peak, 4 * kMiB);
  EXPECT_THAT(result.notes, Contains(HasSubstr("entries on pinned host memory contradict")));
  EXPECT_THAT(result.notes, Contains(HasSubstr("First: entry 0, 0x7e0000000000: was allocated")));
}

TEST(SnapshotPinnedTest, WhatIsNoEntryIsRefused) {
  const auto analysis = Import(HostSnapshot({}, {List({})}), nullptr);
  ASSERT_FALSE(analysis.ok());
  EXPECT_THAT(std::string(analysis.status().message()), HasSubstr("entry 0 of pinned host memory has no action"));
}

}  // namespace
}  // namespace gpumem
