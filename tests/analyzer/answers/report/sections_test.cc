// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/report/sections.h"

#include <gmock/gmock.h>

#include "absl/strings/str_split.h"
#include "base/utf8.h"
#include "fixture.h"
#include "render/draw.h"

namespace gpumem {
namespace {

using testing::Example;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Report(Example* example, int width = 100, TextOptions options = {}, bool utf8 = true) {
  TextStyle style;
  style.width = width;
  style.utf8 = utf8;
  const ReportInput input = example->input();
  Document answer;
  AddReport(input, options, &answer);
  return ToText(answer, style);
}

TEST(Report, AnswersTheFourQuestions) {
  Example example = testing::TrainingExample();
  const std::string text = Report(&example);
  EXPECT_THAT(text, HasSubstr("train  process 4242 on host7, rank 3 of 8, 2026-03-14 15:09:26 UTC"));
  EXPECT_THAT(text, HasSubstr("Peak allocated on GPU 0: 36 GiB at 9.000 s"));
  EXPECT_THAT(text, HasSubstr("22.00 GiB       61 %   1,222  model.py:42 Block.forward  (2 stacks)"));
  EXPECT_THAT(text, HasSubstr("Not freed on GPU 0 at the end: 5 GiB"));
  EXPECT_THAT(text, HasSubstr("10 GiB is free inside PyTorch's segments but scattered"));
  EXPECT_THAT(text, HasSubstr("Dropped events: none"));
  EXPECT_THAT(text, HasSubstr("gpumemshim fragmentation"));
  EXPECT_THAT(text, Not(HasSubstr("gpumemshim leaks")));
  EXPECT_THAT(text, Not(HasSubstr("OUT OF MEMORY")));
  EXPECT_THAT(text, Not(HasSubstr("end is missing")));
}

TEST(Report, SendsToLeaksWhereALineGrows) {
  Example example = testing::TrainingExample();
  testing::AddLeak(&example, 320ull << 20);
  EXPECT_THAT(Report(&example), HasSubstr("gpumemshim leaks          "));
}

TEST(Report, LeadsWithTheFailedRequest) {
  Example example = testing::OomExample();
  const std::string text = Report(&example);
  const size_t oom =
      text.find("OUT OF MEMORY  GPU 0 at 11.000 s: PyTorch asked for 2.50 GiB (after 1 failed CUDA call)");
  ASSERT_NE(oom, std::string::npos);
  EXPECT_LT(oom, text.find("over time"));
  EXPECT_THAT(text, HasSubstr("asked by  model.py:42 Block.forward"));
  EXPECT_THAT(text, HasSubstr("would fit at most 712 MiB"));
  EXPECT_THAT(text, HasSubstr("lies free in pieces, none of which is large enough"));
  EXPECT_THAT(text, HasSubstr("The end is missing: killed, or still running."));
}

TEST(Report, TellsCtrlCFromAProgramThatWasKilledAtItsWork) {
  Example example = testing::OomExample();
  example.analysis.state = Analysis::Process::kEnded;
  EXPECT_THAT(Report(&example), HasSubstr("The end is missing: the process was killed"));
  example.analysis.program_end_ns = example.analysis.end_ns;
  EXPECT_THAT(Report(&example), HasSubstr("own code had ended when a signal ended the process, as Ctrl-C does"));
}

TEST(Report, JudgesAFailedRequestByItsNumbers) {
  Example example = testing::OomExample();
  OomEvent& oom = example.analysis.ooms[0];
  oom.requested = 200ull << 30;
  EXPECT_THAT(Report(&example), HasSubstr("The request alone is larger than the device."));
  oom.requested = 10ull << 30;
  EXPECT_THAT(Report(&example), HasSubstr("9.30 GiB less somewhere below would have let this"));
  oom.values = {1 << 30, 1 << 30, 0, 1 << 30};
  EXPECT_THAT(Report(&example), HasSubstr("This process alone does not fill the device"));
  oom.final = false;
  EXPECT_THAT(Report(&example), HasSubstr("Out of memory at first, then served"));
}

TEST(Report, ExplainsTheLastFinalFailureAndNamesTheOthers) {
  Example example = testing::OomExample();
  OomEvent later = example.analysis.ooms[0];
  later.time_ns += 500'000'000;
  later.requested = 3ull << 30;
  OomEvent served = later;
  served.final = false;
  example.analysis.ooms.push_back(later);
  example.analysis.ooms.push_back(served);
  const std::string text = Report(&example);
  EXPECT_THAT(text, HasSubstr("OUT OF MEMORY  GPU 0 at 11.500 s: PyTorch asked for 3 GiB"));
  EXPECT_THAT(text, HasSubstr("also    GPU 0 at 11.000 s: PyTorch asked for 2.50 GiB"));
  EXPECT_THAT(text, HasSubstr("40 other requests failed at first, and succeeded after a retry"));
}

TEST(Report, SaysWhatIsMissing) {
  Example example = testing::TrainingExample();
  example.analysis.losses.dropped_frees = 12;
  example.analysis.losses.write_error = "No space left on device";
  example.analysis.damage = "run.gmtrace is damaged at byte 77";
  const std::string text = Report(&example);
  EXPECT_THAT(text, HasSubstr("DAMAGED run.gmtrace is damaged at byte 77. All that follows is up to 12.000 s."));
  EXPECT_THAT(text, HasSubstr("12 events are missing"));
  EXPECT_THAT(text, HasSubstr("12 frees dropped because the ring was full"));
  EXPECT_THAT(text, HasSubstr("The trace could not be written: No space left on device"));
}

TEST(Report, FitsEveryTerminal) {
  for (const int width : {40, 60, 80, 100, 200}) {
    Example example = testing::OomExample();
    example.analysis.process.program = "模型训练模型训练模型训练模型训练模型训练模型训练模型训练";
    for (const absl::string_view line : absl::StrSplit(Report(&example, width), '\n')) {
      EXPECT_LE(DisplayWidth(line), width) << line;
    }
  }
}

TEST(Report, IsAsciiWithoutUtf8) {
  Example example = testing::OomExample();
  for (const char c : Report(&example, 100, {}, /*utf8=*/false)) EXPECT_LT(static_cast<unsigned char>(c), 0x80);
}

TEST(Report, IsOneScreenOnATallTerminal) {
  Example example = testing::TrainingExample();
  const std::string text = Report(&example);
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 60);
}

TEST(Report, OfATraceWithoutMemorySaysSo) {
  Example example = testing::TrainingExample();
  example.analysis.devices.clear();
  example.analysis.host_pinned_peak = 0;
  EXPECT_THAT(Report(&example), HasSubstr("No GPU memory was allocated in this trace."));
  example.analysis.host_pinned_peak = 3 << 20;
  EXPECT_THAT(Report(&example), HasSubstr("This trace has no GPU memory; 3 MiB of host memory pinned at most."));
}

TEST(Peak, ListsEveryFrameOnRequest) {
  Example example = testing::TrainingExample();
  TextOptions options;
  options.full_stacks = options.by_stack = true;
  const ReportInput input = example.input();
  Document answer;
  AddPeak(example.analysis.devices[0], Measure::kTotal, input, options, &answer);
  const std::string text = ToText(answer, {});
  EXPECT_THAT(text, HasSubstr("Module._call_impl"));
  EXPECT_THAT(text, HasSubstr("ncclCommInitRankConfig (libnccl.so.2)"));
}

TEST(Peak, SumsWhatIsNotShown) {
  Example example = testing::TrainingExample();
  TextOptions options;
  options.top = 1;
  const ReportInput input = example.input();
  Document answer;
  AddPeak(example.analysis.devices[0], Measure::kAllocated, input, options, &answer);
  const std::string text = ToText(answer, {});
  EXPECT_THAT(text, HasSubstr("in 2 smaller entries"));
}

}  // namespace
}  // namespace gpumem
