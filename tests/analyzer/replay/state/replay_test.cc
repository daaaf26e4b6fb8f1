// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/state/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "testing/sizes.h"
#include "testing/trace_builder.h"

namespace gpumem {
namespace {

using ::testing::ElementsAre;
using testing::kMiB;
using testing::TraceBuilder;

constexpr uint64_t kReplayedSegment = uint64_t{1} << 30;
constexpr uint32_t kSlot = 1;  // of device 0

// Notes what it is asked, in order; applies everything.
struct Diary : ReplayVisitor {
  Replay* replay = nullptr;
  std::vector<std::string> lines;
  uint64_t stop_before = UINT64_MAX;
  Checkpoints checkpoints;

  bool Take(const EventBatch& batch, size_t i, const EventBatch* following) {
    if (replay->index() == stop_before) return false;
    lines.push_back(std::to_string(replay->index()));
    replay->state().Apply(batch, i, following);
    return true;
  }
  void BeforeSnapshot() { lines.push_back("snapshot at " + std::to_string(replay->index())); }
  void AfterSnapshot(const std::vector<LiveSnapshotBatch>&) {
    lines.push_back("alive " + std::to_string(replay->state().values(kSlot).total / kMiB));
  }
  void BeginBatch() {
    lines.push_back("batch");
    checkpoints.Offer(replay->stream().place(), replay->index(), replay->state());
  }
  void TakeItems(const std::vector<BatchStream::Item>& items) {
    if (!items.empty()) lines.push_back("items " + std::to_string(items.size()));
  }
};

struct Lives : LifetimeObserver {
  uint32_t begun = 0, ended = 0;
  void OnAlloc(Held, uint32_t) override { ++begun; }
  void OnFree(Held, uint32_t) override { ++ended; }
};

class ReplayTest : public ::testing::Test {
 protected:
  void Open(TraceBuilder& trace) {
    path_ = trace.WriteTemporary();
    absl::StatusOr<TraceReader> reader = TraceReader::Open(path_);
    ASSERT_TRUE(reader.ok()) << reader.status();
    reader_.emplace(*std::move(reader));
    ASSERT_EQ(reader_->Next(), ItemType::kHeader);
  }
  void TearDown() override { std::remove(path_.c_str()); }

  std::string path_;
  std::optional<TraceReader> reader_;
};

// Two batches with counters between them, an end behind.
TraceBuilder TwoBatches() {
  TraceBuilder trace;
  trace.CudaAlloc(kReplayedSegment, 4 * kMiB).TorchAlloc(kReplayedSegment, kMiB).FlushBatch();
  trace.Counters({}).TorchFree(kReplayedSegment, kMiB).CudaFree(kReplayedSegment);
  trace.End();
  return trace;
}

TEST_F(ReplayTest, ShowsEventsBatchesAndWhatStandsBetween) {
  TraceBuilder trace = TwoBatches();
  Open(trace);
  Replay replay(&*reader_, LayerFilter::kAll);
  Diary diary;
  diary.replay = &replay;
  EXPECT_TRUE(replay.Run(&diary));
  EXPECT_THAT(diary.lines, ElementsAre("batch", "0", "1", "items 1", "batch", "2", "3", "items 1"));
  EXPECT_EQ(replay.index(), 4u);
  EXPECT_TRUE(replay.Run(&diary)) << "at the end it stays";
  EXPECT_EQ(diary.lines.size(), 8u);
}

TEST_F(ReplayTest, GoesOnWithTheEventThatWasTurnedDown) {
  TraceBuilder trace = TwoBatches();
  Open(trace);
  Replay replay(&*reader_, LayerFilter::kAll);
  Diary diary;
  diary.replay = &replay;
  diary.stop_before = 1;
  EXPECT_FALSE(replay.Run(&diary));
  EXPECT_EQ(replay.state().values(kSlot).allocated, 0u);
  diary.stop_before = UINT64_MAX;
  EXPECT_TRUE(replay.Run(&diary, nullptr, 1));
  EXPECT_EQ(replay.state().values(kSlot).allocated, kMiB) << "up to and with event 1, and not into the next batch";
  EXPECT_THAT(diary.lines, ElementsAre("batch", "0", "1"));
}

TEST_F(ReplayTest, ObserversSeeWhatBeginsAndEnds) {
  TraceBuilder trace = TwoBatches();
  Open(trace);
  Replay replay(&*reader_, LayerFilter::kAll);
  Diary diary;
  diary.replay = &replay;
  Lives lives;
  replay.Observe(&lives);
  replay.Run(&diary);
  EXPECT_EQ(lives.begun, 2u);
  EXPECT_EQ(lives.ended, 2u);
}

TEST_F(ReplayTest, BeginsAtACheckpointWithTheStateBeforeIt) {
  TraceBuilder trace = TwoBatches();
  Open(trace);
  Diary diary;
  {
    Replay replay(&*reader_, LayerFilter::kAll);
    diary.replay = &replay;
    replay.Run(&diary);
  }
  Replay again(&*reader_, *diary.checkpoints.Before(0));
  Diary second;
  second.replay = &again;
  again.Run(&second);
  EXPECT_EQ(second.lines, diary.lines);
  std::vector<uint64_t> seen;
  const auto see = [&](const LiveState& state) { seen.push_back(state.values(kSlot).total / kMiB); };
  Revisit(&*reader_, diary.checkpoints, {{3, see}, {1, see}, {99, see}});
  EXPECT_THAT(seen, ElementsAre(4, 0)) << "in the order of events; what is beyond the file is left out";
}

// The file in front of this one is missing: what was alive counts as events that nobody shows.
TEST_F(ReplayTest, TakesInWhatWasAliveBehindAMissingFile) {
  TraceBuilder trace;
  trace.header().mutable_part()->set_series(7);
  trace.header().mutable_part()->set_number(2);
  trace.FlushBatch();
  trace::Packet packet;
  packet.mutable_live_snapshot()->set_begins(true);
  trace::EventBatch* const batch = packet.mutable_live_snapshot()->mutable_events();
  batch->set_count(1);
  batch->set_first_time_ns(1000);
  batch->add_time_delta_ns(0);
  batch->add_kind(trace::ALLOC);
  batch->add_layer(trace::RUNTIME);
  batch->add_address_delta(kReplayedSegment);
  batch->add_size(3 * kMiB);
  trace.Append(packet);
  trace.CudaFree(kReplayedSegment);
  trace.End();
  Open(trace);
  Replay replay(&*reader_, LayerFilter::kAll);
  Diary diary;
  diary.replay = &replay;
  Lives lives;
  replay.Observe(&lives);
  EXPECT_TRUE(replay.Run(&diary));
  EXPECT_THAT(diary.lines, ElementsAre("snapshot at 0", "alive 3", "batch", "1", "items 1"));
  EXPECT_EQ(lives.begun, 0u) << "a live snapshot is no news";
  EXPECT_EQ(lives.ended, 1u) << "and they observe on behind it";
}

}  // namespace
}  // namespace gpumem
