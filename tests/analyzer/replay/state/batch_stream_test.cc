// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/state/batch_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "replay/state/replay.h"
#include "testing/sizes.h"
#include "testing/trace_builder.h"

namespace gpumem {
namespace {

using ::testing::ElementsAre;
using testing::kMiB;
using testing::TraceBuilder;

constexpr uint64_t kExistingSegment = uint64_t{1} << 40, kPage = 2 * kMiB;
constexpr uint32_t kDeviceSlot = 1;  // of device 0

EventRow ExistingRow(trace::EventKind kind, uint64_t handle, uint64_t address = 0, uint64_t size = 0) {
  EventRow row;
  row.kind = kind;
  row.handle = handle;
  row.address = address;
  row.size = size;
  row.device = kind == trace::EXISTING ? 0 : -1;
  return row;
}

// PyTorch's totals in MiB behind each event.
struct Totals : ReplayVisitor {
  Replay* replay = nullptr;
  std::vector<uint64_t> allocated, reserved;
  bool Take(const EventBatch& batch, size_t i, const EventBatch* following) {
    replay->state().Apply(batch, i, following);
    if (replay->state().slots() <= kDeviceSlot) return true;
    allocated.push_back(replay->state().values(kDeviceSlot).allocated / kMiB);
    reserved.push_back(replay->state().values(kDeviceSlot).reserved / kMiB);
    return true;
  }
};

class ExistingMemoryTest : public ::testing::Test {
 protected:
  ~ExistingMemoryTest() override {
    if (!path_.empty()) std::remove(path_.c_str());
  }
  TraceBuilder& Start() { return trace_.FlushBatch().Event(ExistingRow(trace::RECORDING_START, 1)); }
  TraceBuilder& Existing(uint64_t kind, uint64_t address, uint64_t size, uint64_t requested = 0) {
    EventRow row = ExistingRow(trace::EXISTING, kind, address, size);
    row.requested_size = requested;
    ++told_;
    return trace_.Event(row);
  }
  TraceBuilder& ExistingEnd(int result = trace::EXISTING_KNOWN) {
    EventRow row = ExistingRow(trace::EXISTING_END, told_);
    row.result = result;
    return trace_.Event(row);
  }
  Totals Play() {
    path_ = trace_.WriteTemporary();
    reader_.emplace(*TraceReader::Open(path_));
    reader_->Next();
    replay_.emplace(&*reader_, LayerFilter::kAll);
    Totals totals;
    totals.replay = &*replay_;
    replay_->Run(&totals);
    return totals;
  }

  TraceBuilder trace_;
  std::optional<TraceReader> reader_;
  std::optional<Replay> replay_;
  uint64_t told_ = 0;
  std::string path_;
};

TEST_F(ExistingMemoryTest, HoldsFromTheBeginningOnHoweverLateItIsTold) {
  Start().TorchAlloc(kExistingSegment + 4 * kMiB, kMiB).FlushBatch();
  Existing(2, kExistingSegment, 20 * kMiB);
  Existing(1, kExistingSegment, 2 * kMiB).FlushBatch();
  Existing(1, kExistingSegment + 2 * kMiB, kMiB);
  ExistingEnd().TorchFree(kExistingSegment, 2 * kMiB);
  const Totals totals = Play();
  EXPECT_THAT(totals.allocated, ElementsAre(3, 4, 4, 4, 4, 4, 2));
  EXPECT_EQ(totals.reserved.front(), 20u);
  EXPECT_EQ(replay_->state().accounts().blocks_without_segment, 0u);
}

TEST_F(ExistingMemoryTest, WhatHappenedAtAnAddressSinceIsKnownBetter) {
  Start();
  trace_.TorchFree(kExistingSegment + kMiB, kMiB);  // gone before the snapshot
  trace_.TorchFree(kExistingSegment + 2 * kMiB, kMiB)
      .TorchAlloc(kExistingSegment + 2 * kMiB, 512 * 1024);  // another one since
  trace_.TorchAlloc(kExistingSegment + 4 * kMiB, 3 * kMiB);  // new
  trace_.TorchFree(kExistingSegment, kMiB);                  // gone behind the snapshot
  Existing(2, kExistingSegment, 20 * kMiB);
  Existing(1, kExistingSegment, kMiB);
  Existing(1, kExistingSegment + 2 * kMiB, 512 * 1024);
  Existing(1, kExistingSegment + 4 * kMiB, 3 * kMiB);
  Existing(1, kExistingSegment + 8 * kMiB, 5 * kMiB);
  ExistingEnd();
  const Totals totals = Play();
  EXPECT_EQ(totals.allocated[0], 8u);      // 1 + 1 + 1 + 5
  EXPECT_EQ(totals.allocated.back(), 8u);  // 0.5 + 3 + 5
  EXPECT_EQ(replay_->state().accounts().size_mismatches, 0u);
  EXPECT_EQ(replay_->state().accounts().devices[kDeviceSlot].unknown_frees, 0u);
}

TEST_F(ExistingMemoryTest, ExpandableSegmentsEndPageByPageAndGrow) {
  Start();
  Existing(3, kExistingSegment, 3 * kPage, kPage);
  Existing(1, kExistingSegment, kPage);
  ExistingEnd().FlushBatch();
  EventRow unmap = ExistingRow(trace::UNMAP, 0, kExistingSegment + kPage, kPage);
  unmap.layer = trace::DRIVER;
  EventRow release = ExistingRow(trace::PHYSICAL_RELEASE, 77);
  release.layer = trace::DRIVER;
  EventRow create = ExistingRow(trace::PHYSICAL_CREATE, 78, 0, kPage);
  create.layer = trace::DRIVER;
  create.memory = trace::PHYSICAL;
  create.device = 0;
  EventRow map = ExistingRow(trace::MAP, 78, kExistingSegment + 3 * kPage, kPage);
  map.layer = trace::DRIVER;
  map.device = 0;
  trace_.Event(unmap).Event(release).Event(create).Event(map);
  const Totals totals = Play();
  EXPECT_EQ(totals.reserved.front(), 6u);
  EXPECT_EQ(totals.reserved.back(), 6u);  // one page less, one more
  EXPECT_EQ(totals.reserved[totals.reserved.size() - 3], 4u);
  for (const DeviceAccount& device : replay_->state().accounts().devices) EXPECT_EQ(device.unknown_frees, 0u);
  EXPECT_EQ(replay_->state().accounts().unknown_maps, 0u);
}

TEST_F(ExistingMemoryTest, BehindAPauseItTakesThePlaceOfWhatPyTorchHad) {
  trace_.CudaAlloc(kExistingSegment, 20 * kMiB)
      .TorchAlloc(kExistingSegment, 7 * kMiB)
      .CudaAlloc(2 * kExistingSegment, kMiB);
  trace_.Event(ExistingRow(trace::RECORDING_STOP, 0));
  Start();
  Existing(2, 3 * kExistingSegment, 2 * kMiB);
  Existing(1, 3 * kExistingSegment, kMiB);
  ExistingEnd();
  const Totals totals = Play();
  EXPECT_EQ(totals.allocated.back(), 1u);
  EXPECT_EQ(totals.reserved.back(), 2u);
  EXPECT_EQ(replay_->state().values(kDeviceSlot).other, kMiB);  // not PyTorch's
}

TEST_F(ExistingMemoryTest, WithoutAnAnswerNothingIsGuessed) {
  Start().TorchFree(kExistingSegment, kMiB);
  ExistingEnd(trace::EXISTING_NO_SNAPSHOT);
  EXPECT_EQ(Play().allocated.back(), 0u);
}

TEST_F(ExistingMemoryTest, WithoutAnEndNothingIsGuessed) {
  Start();
  Existing(1, kExistingSegment, kMiB).FlushBatch().TorchAlloc(kExistingSegment + kMiB, kMiB);
  EXPECT_EQ(Play().allocated.back(), 1u);
}

TEST_F(ExistingMemoryTest, SaysWhatOfItWasLost) {
  Start();
  Existing(1, kExistingSegment, kMiB);
  told_ += 2;
  ExistingEnd();
  path_ = trace_.WriteTemporary();
  reader_.emplace(*TraceReader::Open(path_));
  reader_->Next();
  BatchStream stream(&*reader_);
  ASSERT_TRUE(stream.Advance());
  ASSERT_EQ(stream.entry().live_snapshot.size(), 1u);
  EXPECT_EQ(stream.entry().live_snapshot[0].lost, 2u);
}

}  // namespace
}  // namespace gpumem
