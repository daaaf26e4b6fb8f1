// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/attribution/two_passes.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "ledger/attribution/label_replay.h"
#include "replay/analyze.h"
#include "testing/sizes.h"
#include "testing/training_trace.h"

namespace gpumem {
namespace {

using testing::kMiB;
using testing::kSegment;
using testing::TrainingTrace;

// Counts what it is shown, in both replays.
class Counter final : public TwoPassAnalysis, private LabelVisitor {
 public:
  Counter(uint64_t first_end, uint64_t second_end, bool wants_second)
      : first_end_(first_end), second_end_(second_end), wants_second_(wants_second) {}

  uint64_t FirstEnd() const override { return first_end_; }
  LabelVisitor* BeginFirst(const LabelReplay& replay) override {
    first_replay = &replay;
    return this;
  }
  void EndFirst(const LabelReplay&) override { in_first = events; }
  uint64_t SecondEnd() const override { return second_end_; }
  LabelVisitor* BeginSecond(const LabelReplay&) override {
    events = 0;
    return wants_second_ ? this : nullptr;
  }
  void EndSecond() override { in_second = events; }

  const LabelReplay* first_replay = nullptr;
  int events = 0, in_first = -1, in_second = -1, blocks = 0;

 private:
  void Before(uint64_t, const EventBatch* batch, size_t) override { events += batch != nullptr; }
  void BlockEnded(const TorchBlock&, const BlockLabel&, uint64_t, bool) override { ++blocks; }

  uint64_t first_end_, second_end_;
  bool wants_second_;
};

class TwoPassesTest : public ::testing::Test {
 protected:
  TwoPassesTest() {
    TrainingTrace trace;
    trace.builder().CudaAlloc(kSegment, 64 * kMiB);
    for (uint64_t i = 0; i < 9; ++i) trace.builder().TorchAlloc(kSegment + i * kMiB, kMiB);
    trace.builder().End();
    path_ = trace.builder().WriteTemporary();
    absl::StatusOr<Analysis> analysis = Analyze(path_, {}, &stacks_);
    EXPECT_TRUE(analysis.ok()) << analysis.status();
    end_ns_ = analysis->end_ns;
    origin_ns_ = analysis->origin_ns;
  }
  ~TwoPassesTest() override { std::remove(path_.c_str()); }

  absl::Status Run(const std::vector<TwoPassAnalysis*>& analyses) {
    return RunTwoPasses(path_, stacks_.objects(), analyses);
  }

  std::string path_;
  StackTable stacks_;
  uint64_t origin_ns_ = 0, end_ns_ = 0;
};

TEST_F(TwoPassesTest, ThoseThatEndAlikeShareTheirReplays) {
  Counter a(end_ns_, origin_ns_, true), b(end_ns_, end_ns_, true);
  ASSERT_TRUE(Run({&a, &b}).ok());
  EXPECT_EQ(a.first_replay, b.first_replay);
  EXPECT_EQ(a.in_first, 10);
  EXPECT_EQ(b.in_first, 10);
  EXPECT_EQ(a.in_second, 10) << "it goes on to the later of both ends";
  EXPECT_EQ(b.in_second, 10);
  EXPECT_EQ(a.blocks, 2 * 9) << "alive at the end of both replays";
}

TEST_F(TwoPassesTest, AnEarlierEndIsAReplayOfItsOwn) {
  Counter whole(end_ns_, end_ns_, true), first_event(origin_ns_, origin_ns_, true);
  ASSERT_TRUE(Run({&whole, &first_event}).ok());
  EXPECT_EQ(whole.in_first, 10);
  EXPECT_EQ(first_event.in_first, 1);
  EXPECT_EQ(first_event.in_second, 1);
}

TEST_F(TwoPassesTest, WhoWantsNoSecondReplayIsNotInIt) {
  Counter once(end_ns_, end_ns_, false), twice(end_ns_, end_ns_, true);
  ASSERT_TRUE(Run({&once, &twice}).ok());
  EXPECT_EQ(once.in_first, 10);
  EXPECT_EQ(once.in_second, -1);
  EXPECT_EQ(once.events, 0);
  EXPECT_EQ(twice.in_second, 10);
}

TEST_F(TwoPassesTest, AFileThatIsGoneIsSaid) {
  Counter counter(end_ns_, end_ns_, true);
  EXPECT_FALSE(RunTwoPasses(path_ + ".none", stacks_.objects(), {&counter}).ok());
}

}  // namespace
}  // namespace gpumem
