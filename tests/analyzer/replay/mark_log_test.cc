// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/mark_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analyze_trace.h"
#include "testing/sizes.h"

namespace gpumem {
namespace {

using ::testing::HasSubstr;
using testing::kMiB;

constexpr uint64_t kMarkSecond = 1'000'000'000, kMarkedAddress = 0x7f0000000000;

class MarkLogTest : public ::testing::Test {
 protected:
  void At(uint64_t seconds, trace::EventKind kind, const char* text = nullptr, uint64_t number = 0, uint32_t thread = 1,
          uint32_t tid = 0) {
    EventRow row;
    row.time_ns = seconds * kMarkSecond;
    row.kind = kind;
    row.thread = thread;
    row.handle = number;
    row.stream = tid;
    row.text = text == nullptr ? 0 : trace_.String(text);
    trace_.Event(row);
  }
  void Alloc(uint64_t seconds, uint64_t number = 0) {
    trace_.AtTime(seconds * kMarkSecond).CudaAlloc(kMarkedAddress + number * kMiB, kMiB);
  }
  Analysis Result() {
    trace_.End();
    return AnalyzeTrace(trace_);
  }

  gpumem::testing::TraceBuilder trace_;
};

TEST_F(MarkLogTest, SaysNothingWhereNothingWasSaid) {
  Alloc(1);
  Alloc(3, 1);
  const Analysis analysis = Result();
  EXPECT_TRUE(analysis.marks.At(2 * kMarkSecond).empty());
  EXPECT_FALSE(analysis.marks.was_switched());
  ASSERT_EQ(analysis.marks.spans().size(), 1u);
  EXPECT_EQ(analysis.marks.spans()[0].from_ns, 1 * kMarkSecond);
  EXPECT_EQ(analysis.marks.spans()[0].to_ns, 3 * kMarkSecond);
}

TEST_F(MarkLogTest, RangesOfLibrariesAreNoStages) {
  trace_.Thread(100, "a");
  At(1, trace::RANGE_PUSH, "train");
  At(2, trace::RANGE_PUSH, "CCCL:cub::DeviceRadixSort");
  Alloc(3);
  At(4, trace::RANGE_POP);
  At(5, trace::RANGE_START, "NCCL:AllReduce", 7);
  At(6, trace::RANGE_END, nullptr, 7);
  Alloc(7, 1);
  At(8, trace::RANGE_POP);
  Alloc(9, 2);
  const Analysis analysis = Result();
  for (const uint64_t time : {3, 5, 7}) EXPECT_EQ(analysis.marks.At(time * kMarkSecond).stage, "train") << time;
  EXPECT_EQ(analysis.marks.At(9 * kMarkSecond).stage, "");
  EXPECT_EQ(analysis.marks.entries().size(), 2u);
}

TEST_F(MarkLogTest, AThreadsOwnStageComesBeforeTheProcesss) {
  trace_.Thread(100, "a");
  trace_.Thread(200, "b");
  Alloc(1);
  At(2, trace::RANGE_PUSH, "train");
  At(3, trace::RANGE_START, "whole", 7);
  At(4, trace::RANGE_PUSH, "load", 0, 2);
  At(5, trace::RANGE_POP, nullptr, 0, 2);
  At(6, trace::RANGE_POP);
  const Analysis analysis = Result();
  const MarkLog& marks = analysis.marks;
  const auto text = [&](uint64_t seconds, uint32_t tid) {
    return marks.StageText(marks.StageAt(seconds * kMarkSecond, tid));
  };
  EXPECT_TRUE(marks.has_stages());
  EXPECT_EQ(marks.StageAt(1 * kMarkSecond, 100), 0u);
  EXPECT_EQ(text(2, 100), "train");
  EXPECT_EQ(text(2, 200), "train") << "it has none of its own";
  EXPECT_EQ(text(4, 100), "whole > train") << "and not the other's, which began later";
  EXPECT_EQ(text(4, 200), "whole > load");
  EXPECT_EQ(text(5, 200), "whole > train");
  EXPECT_EQ(text(6, 100), "whole");
}

TEST_F(MarkLogTest, StagesNestAndEnd) {
  At(1, trace::RANGE_PUSH, "train");
  At(2, trace::RANGE_PUSH, "forward");
  Alloc(3);
  At(4, trace::RANGE_POP);
  At(5, trace::RANGE_PUSH, "backward");
  At(6, trace::RANGE_POP);
  At(7, trace::RANGE_POP);
  At(8, trace::RANGE_POP);  // one too many
  At(9, trace::STEP, nullptr, 4);
  const Analysis analysis = Result();
  const MarkLog& marks = analysis.marks;
  EXPECT_EQ(marks.At(1).stage, "");
  EXPECT_EQ(marks.At(1 * kMarkSecond).stage, "train");
  EXPECT_EQ(marks.At(3 * kMarkSecond).stage, "train > forward");
  EXPECT_EQ(marks.At(4 * kMarkSecond).stage, "train");
  EXPECT_EQ(marks.At(5 * kMarkSecond).stage, "train > backward");
  EXPECT_EQ(marks.At(8 * kMarkSecond).stage, "");
  EXPECT_EQ(marks.At(8 * kMarkSecond).step, 0u);
  EXPECT_EQ(marks.At(20 * kMarkSecond).step, 4u);
  EXPECT_EQ(analysis.events.by_kind.at("RANGE_PUSH"), 3u);
}

// autograd's threads have no stages; another thread's end does not hide those that are open.
TEST_F(MarkLogTest, TheThreadThatLastSaidSomethingAndIsNotDone) {
  const uint32_t main = trace_.Thread(100, "main"), loader = trace_.Thread(200, "loader");
  At(1, trace::RANGE_PUSH, "backward", 0, main);
  At(2, trace::RANGE_PUSH, "pin", 0, loader);
  Alloc(3);
  At(4, trace::RANGE_POP, nullptr, 0, loader);
  At(5, trace::RANGE_POP, nullptr, 0, loader, 100);  // said for the main thread by another
  const Analysis analysis = Result();
  EXPECT_EQ(analysis.marks.At(3 * kMarkSecond).stage, "pin");
  EXPECT_EQ(analysis.marks.At(4 * kMarkSecond).stage, "backward");
  EXPECT_EQ(analysis.marks.At(5 * kMarkSecond).stage, "");
}

TEST_F(MarkLogTest, RangesOfTheProcessTagsAndMarks) {
  At(1, trace::RANGE_START, "job", 7);
  At(2, trace::RANGE_PUSH, "inner");
  At(3, trace::TAG, "tenant");
  At(4, trace::MARK, "now");
  Alloc(5);
  At(6, trace::RANGE_END, nullptr, 7, 2);
  At(7, trace::TAG);
  const Analysis analysis = Result();
  const MarkPlace place = analysis.marks.At(5 * kMarkSecond);
  EXPECT_EQ(place.stage, "job > inner");
  EXPECT_EQ(place.tag, "tenant");
  EXPECT_EQ(place.mark, "now");
  EXPECT_EQ(analysis.marks.At(6 * kMarkSecond).stage, "inner");
  EXPECT_EQ(analysis.marks.At(7 * kMarkSecond).tag, "");
}

TEST_F(MarkLogTest, SpansOfASwitchedRecording) {
  Alloc(1);
  At(3, trace::RECORDING_STOP);
  At(5, trace::RECORDING_START);
  Alloc(8, 1);
  const Analysis analysis = Result();
  ASSERT_EQ(analysis.marks.spans().size(), 2u);
  EXPECT_EQ(analysis.marks.spans()[0].to_ns, 3 * kMarkSecond);
  EXPECT_EQ(analysis.marks.spans()[1].from_ns, 5 * kMarkSecond);
  EXPECT_EQ(analysis.marks.spans()[1].to_ns, 8 * kMarkSecond);
  EXPECT_FALSE(analysis.marks.began_late());
  ASSERT_FALSE(analysis.notes.empty());
  EXPECT_THAT(analysis.notes[0], HasSubstr("switched off in between (2 spans)"));
  ASSERT_EQ(analysis.devices.size(), 1u);  // a switch is not an event of a device
  EXPECT_EQ(analysis.devices[0].peak_total.bytes, 2 * kMiB);
}

TEST_F(MarkLogTest, ARecordingThatBeganLate) {
  At(1, trace::RECORDING_START);
  Alloc(2);
  At(3, trace::RECORDING_STOP);
  const Analysis analysis = Result();
  EXPECT_TRUE(analysis.marks.began_late());
  ASSERT_EQ(analysis.marks.spans().size(), 1u);
  EXPECT_THAT(analysis.notes[0], HasSubstr("under way"));
}

}  // namespace
}  // namespace gpumem
