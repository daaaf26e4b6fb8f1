// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "live/live_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "answers/parts/categories.h"
#include "answers/report/trace_answer.h"
#include "base/utf8.h"
#include "live/live_frame.h"
#include "render/draw.h"
#include "testing/key_tables.h"
#include "testing/sizes.h"

namespace gpumem {
namespace {

using ::testing::HasSubstr;
using testing::kMiB;
using ::testing::Not;

LiveProcess Process(const std::string& program, int rank) {
  LiveProcess process;
  process.file = program + ".gmtrace";
  process.process.program = program;
  process.process.pid = 4242 + static_cast<uint32_t>(rank);
  process.process.rank = rank;
  process.process.world_size = 4;
  process.state = LiveProcess::State::kRunning;
  process.now_ns = 12'000'000'000;
  process.events = 12345;
  LiveDevice& device = process.devices.emplace_back();
  device.capacity = 1024 * kMiB;
  device.now = {100 * kMiB, 200 * kMiB, 10 * kMiB, 210 * kMiB};
  device.peak = {150 * kMiB, 200 * kMiB, 10 * kMiB, 210 * kMiB};
  for (uint64_t i = 0; i < 100; ++i) device.curve.push_back({i * 120'000'000, {i * kMiB, 200 * kMiB, 0, 200 * kMiB}});
  process.device = 0;
  process.categories[Index(Category::kParameter)] = 60 * kMiB;
  process.categories[Index(Category::kUnknown)] = 40 * kMiB;
  process.lines = {{"train.py:9 main", "", 60 * kMiB, 3, Category::kParameter, 0},
                   {"serve.py:88 remember", "", 40 * kMiB, 900, Category::kUnknown, int64_t{8 * kMiB}}};
  process.lines_bytes = 100 * kMiB;
  process.changes_since_ns = 2'000'000'000;
  return process;
}

LiveFrame FrameOf(int processes) {
  LiveFrame frame;
  for (int i = 0; i < processes; ++i) frame.processes.push_back(Process("train", i));
  return frame;
}

std::string TextOf(const std::vector<LiveRow>& rows) {
  std::string text;
  for (const LiveRow& row : rows) {
    for (const Span& span : row) text += span.text;
    text += '\n';
  }
  return text;
}

TEST(LaggingRanks, TheLowestWhereAnotherIsTwoStepsFurther) {
  LiveFrame frame = FrameOf(3);
  for (int i = 0; i < 3; ++i) frame.processes[static_cast<size_t>(i)].steps = {10, 20, 1e9, 0, 0};
  EXPECT_TRUE(LaggingRanks(frame.processes).empty());
  frame.processes[1].steps.last = 19;
  EXPECT_TRUE(LaggingRanks(frame.processes).empty()) << "between two reads a step ends";
  frame.processes[1].steps.last = 18;
  ASSERT_EQ(LaggingRanks(frame.processes).size(), 1u);
  EXPECT_EQ(LaggingRanks(frame.processes)[0]->process.rank, 1);
  frame.processes[1].read = 0.5;
  EXPECT_TRUE(LaggingRanks(frame.processes).empty()) << "its file was not read to the end";
  frame.processes[1].read = 1;
  frame.processes[1].state = LiveProcess::State::kKilled;
  EXPECT_TRUE(LaggingRanks(frame.processes).empty()) << "it holds nobody up";
}

TEST(LiveView, ARankThatGivesNoSignOfLife) {
  LiveFrame frame = FrameOf(2);
  frame.processes[0].steps = {10, 95, 1e9, 0, 0};
  frame.processes[1].steps = {10, 85, 1e9, 0, 0};
  frame.processes[0].heartbeat_age_ns = 900'000'000;
  frame.processes[1].heartbeat_age_ns = 42'100'000'000;
  LiveView view;
  LiveSize size;
  size.columns = 140;
  const std::string text = TextOf(DrawLive(frame, view, size));
  EXPECT_THAT(text, HasSubstr("step 85  no sign of life for 42 s"));
  EXPECT_THAT(text, Not(HasSubstr("step 95  no sign")));
  EXPECT_THAT(text, HasSubstr("rank 1 is at step 85, others at up to 95, no sign of life for 42 s"));
}

TEST(LiveView, FitsEveryScreen) {
  const LiveFrame frame = FrameOf(4);
  for (const size_t rows : {1, 2, 5, 10, 24, 40, 60}) {
    for (const int columns : {1, 20, 80, 100, 200}) {
      for (const bool utf8 : {true, false}) {
        const std::vector<LiveRow> drawn = DrawLive(frame, LiveView(), {rows, columns, utf8});
        EXPECT_EQ(drawn.size(), rows);
        for (const LiveRow& row : drawn) {
          int width = 0;
          for (const Span& span : row) width += DisplayWidth(span.text);
          EXPECT_LE(width, columns);
        }
      }
    }
  }
}

TEST(LiveView, ShowsWhatMatters) {
  const std::string text = TextOf(DrawLive(FrameOf(1), LiveView(), {24, 80, true}));
  for (const char* const part :
       {"train  pid 4242  rank 0 of 4", "running", "12,345 events", "allocated 100 MiB", "reserved 200 MiB",
        "capacity 1 GiB", "parameters 60 MiB", "serve.py:88 remember", "+8.00 MiB", "q quit"})
    EXPECT_THAT(text, HasSubstr(part));
}

TEST(LiveView, NamesWhoElseIsOnTheGpu) {
  LiveFrame frame = FrameOf(1);
  EXPECT_THAT(TextOf(DrawLive(frame, LiveView(), {40, 120, true})), Not(HasSubstr("beside it")));
  frame.processes[0].devices[0].others = {{4711, "vllm", 3 * kMiB}, {4712, "", kNotStated}};
  EXPECT_THAT(TextOf(DrawLive(frame, LiveView(), {40, 120, true})),
              HasSubstr("beside it  vllm (pid 4711) 3 MiB, a process (pid 4712)\n"));
  frame.processes[0].devices[0].others.resize(5, {4713, "python", kMiB});
  EXPECT_THAT(TextOf(DrawLive(frame, LiveView(), {40, 120, true})), HasSubstr("python (pid 4713) 1 MiB and 2 more\n"));
}

// Blank rows below the table would be room that neither the curve nor a line of code has.
TEST(LiveView, FillsTheScreen) {
  for (const size_t lines : {size_t{2}, size_t{12}, size_t{200}}) {
    LiveFrame frame = FrameOf(1);
    frame.processes[0].lines.resize(lines, {"train.py:9 main", "", kMiB, 1, Category::kParameter, 0});
    for (const size_t rows : {size_t{24}, size_t{40}, size_t{60}}) {
      const std::vector<LiveRow> drawn = DrawLive(frame, LiveView(), {rows, 120, true});
      const auto blank = std::count_if(drawn.begin(), drawn.end(), [](const LiveRow& row) { return row.empty(); });
      EXPECT_LE(blank, 4) << lines << " lines of code, " << rows << " rows";
    }
  }
}

TEST(LiveView, KeysSortFilterPauseAndSelect) {
  const LiveFrame frame = FrameOf(4);
  LiveView view;
  EXPECT_EQ(view.Lines(frame.processes[0])[0].site, "train.py:9 main");
  view.Press('s', frame);
  EXPECT_EQ(view.Lines(frame.processes[0])[0].site, "serve.py:88 remember") << "by change";
  for (const char key : std::string("/serve")) view.Press(key, frame);
  EXPECT_EQ(view.Lines(frame.processes[0]).size(), 1u) << "while it is typed";
  view.Press(kKeyEnter, frame);
  EXPECT_EQ(view.filter(), "serve");
  view.Press(kKeyEscape, frame);
  EXPECT_EQ(view.Lines(frame.processes[0]).size(), 2u);
  view.Press('p', frame);
  EXPECT_TRUE(view.is_paused());
  view.Press(kKeyDown, frame);
  EXPECT_EQ(view.Selected(frame), &frame.processes[1]);
  for (int i = 0; i < 9; ++i) view.Press(kKeyDown, frame);
  EXPECT_EQ(view.Selected(frame), &frame.processes[3]);
  view.Press('?', frame);
  EXPECT_TRUE(view.shows_help());
  EXPECT_EQ(view.Press('q', frame).kind, LiveAction::Kind::kNone) << "any key closes the help";
  EXPECT_EQ(view.Press('q', frame).kind, LiveAction::Kind::kQuit);
}

TEST(LiveView, AMarkIsTypedAndErased) {
  LiveView view;
  const LiveFrame frame = FrameOf(1);
  for (const int32_t key :
       {int32_t{'m'}, int32_t{'q'}, int32_t{0x6a21}, int32_t{kKeyErase}, int32_t{0x1b}, int32_t{'s'}})
    view.Press(key, frame);
  const LiveAction action = view.Press(kKeyEnter, frame);
  EXPECT_EQ(action.kind, LiveAction::Kind::kMark);
  EXPECT_EQ(action.text, "qs");
}

TEST(LiveView, HostileNamesSteerNothing) {
  LiveFrame frame = FrameOf(1);
  LiveProcess& process = frame.processes[0];
  const std::string hostile = "\x1b[2J\x1b]0;x\x07\u202egnp.exe" + std::string(500, 'A') + "\r\n";
  process.process.program = process.file = process.last_mark = hostile;
  process.devices[0].name = hostile;
  process.lines[0].site = process.lines[0].through = hostile;
  process.losses.write_error = hostile;
  process.problem = hostile;
  LiveView view;
  view.Say(hostile);
  for (const size_t rows : {0, 24}) {
    const std::string text = TextOf(DrawLive(frame, view, {rows, 120, true}));
    EXPECT_THAT(text, Not(HasSubstr("\x1b")));
    EXPECT_THAT(text, Not(HasSubstr("\r")));
    EXPECT_THAT(text, Not(HasSubstr("\x07")));
    EXPECT_THAT(text, Not(HasSubstr("\u202e")));
  }
  EXPECT_THAT(ToJson(LiveDocument(frame), JsonLayout::kOneLine), Not(HasSubstr("\x1b")));
}

TEST(LiveJson, TheTableOfTheManualIsWhatItDeclares) {
  const LiveFrame frame = FrameOf(1);
  Document elsewhere = OutlookAnswer(Outlook());
  elsewhere.Field("losses", LossesDatum(LossCounts()), "");
  elsewhere.Field("values", ValuesDatum(MeasureValues()), "");
  elsewhere.Field("categories", CategoriesDatum(CategoryBytes()), "");
  testing::ExpectKeyTables({{"live", LiveDocument(frame)}}, {{"", elsewhere}});
}

TEST(LiveView, NothingToShowIsSaid) {
  EXPECT_THAT(TextOf(DrawLive({}, LiveView(), {24, 80, true})), HasSubstr("No trace to show yet."));
}

TEST(LiveViewTest, ManyProcessesAreSummedUpWhereTheyHaveNoRoom) {
  LiveFrame frame = FrameOf(64);
  frame.processes[7].devices[0].now.allocated = 3 * kMiB;
  frame.processes[61].devices[0].now.allocated = 900 * kMiB;
  frame.processes[61].state = LiveProcess::State::kKilled;
  for (LiveProcess& process : frame.processes) process.steps = {90, 90, 0, 0, 0};
  frame.processes[40].steps = {85, 85, 0, 0, 0};
  const std::string text = TextOf(DrawLive(frame, LiveView(), {30, 120, true}));
  EXPECT_THAT(text, HasSubstr("64 processes, 63 running, 1 killed; 3 MiB to 900 MiB in use (most rank 61); "
                              "step 85 (rank 40) to 90"));
  EXPECT_THAT(text, HasSubstr("rank 0  train  pid 4242 "));
}

}  // namespace
}  // namespace gpumem
