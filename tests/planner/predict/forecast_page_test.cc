// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "example_forecast.h"
#include "planner/predict/failure_advice.h"
#include "planner/predict/plan_answer.h"
#include "render/draw.h"

namespace gpumem::plan {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using testing::kGiB;
using testing::kMiB;
using ::testing::Not;

using Section = void (*)(const Forecast&, Document*);

// In lines so long that none is broken.
std::string Text(Section section, const Forecast& forecast) {
  TextStyle style;
  style.width = 1000;
  Document answer;
  section(forecast, &answer);
  return ToText(answer, style);
}

TEST(ForecastPageTest, OneThatFits) {
  EXPECT_EQ(Text(AddVerdict, testing::ExampleForecast()),
            "python train.py --batch-size 8\n"
            "  on SIM10 (10 GiB, capability 8.6), simulated: no GPU was used\n"
            "  fits: 8 GiB of 10 GiB, 2 GiB are left\n"
            "  allocated   6.50 GiB  peak of PyTorch's blocks\n"
            "  reserved       7 GiB  peak of PyTorch's segments\n"
            "  nvidia-smi     8 GiB  with 512 MiB of context and rounding and 512 MiB past PyTorch's allocator\n"
            "  the program ran to its end, 4 steps (4.2 s).\n");
}

TEST(ForecastPageTest, TheOtherVerdicts) {
  EXPECT_THAT(Text(AddVerdict, testing::TightForecast()),
              HasSubstr("  fits, but tightly: it would like 12 GiB of 10 GiB; with that PyTorch gives cached memory"));
  EXPECT_THAT(Text(AddVerdict, testing::DataForecast()),
              AllOf(HasSubstr("  too close to say: 6 GiB to 12 GiB of 10 GiB. Open: how much nonzero, masks and unique "
                              "find.\n"),
                    HasSubstr("  -6 GiB  how much nonzero, masks and unique find. --data-dependent expect=SHARE\n")));
  EXPECT_THAT(Text(AddVerdict, testing::TooLargeForecast()),
              HasSubstr("  does not fit: 12 GiB are wanted, 2 GiB more than the 10 GiB of the device\n"));
}

TEST(ForecastPageTest, TheHeadlineSaysWhatWouldBreakItsWord) {
  Forecast forecast = testing::ExampleForecast();
  forecast.end = RunEnd::kStable;
  forecast.processes[0].reported.context.known = "nothing";
  EXPECT_THAT(
      Text(AddVerdict, forecast),
      AllOf(HasSubstr("  fits unless something after step 4 needs more, such as a longer batch or an evaluation: "
                      "7.75 GiB to 8.50 GiB, likely 8 GiB of 10 GiB, at least 1.50 GiB are left\n"),
            HasSubstr("  no upper bound  the program was stopped after step 4. --steps all"),
            HasSubstr("  -256 MiB, +512 MiB  the size of CUDA's context is a guess.\n")));
}

TEST(ForecastPageTest, NoUpperNumberIsPrintedThatIsNoBound) {
  Forecast forecast = testing::ExampleForecast();
  forecast.other_values_failed = "train.py:12 main";
  forecast.with_other_values = testing::PeaksOfSize(9 * kGiB);
  const std::string text = Text(AddVerdict, forecast);
  EXPECT_THAT(text,
              HasSubstr("  fits unless a value is another one at train.py:12 main: at least 8 GiB with the values "
                        "tried, no upper bound; there are 10 GiB. To settle it: --pin 'train.py:12=VALUE'\n"));
  EXPECT_THAT(text, Not(HasSubstr("9 GiB")));
}

TEST(ForecastPageTest, AProgramThatIsRefusedMemoryAndGoesOn) {
  Forecast forecast = testing::TightForecast();
  forecast.refused_when_tight = 2;
  forecast.largest_refused = 11 * kGiB;
  EXPECT_THAT(
      Text(AddVerdict, forecast),
      HasSubstr("  fits: the program was refused 2 requests of up to 11 GiB, handled that and settled on 9 GiB of "
                "10 GiB\n"));
}

TEST(ForecastPageTest, ProcessesThatShareADeviceAreNamedWithTheirSum) {
  Forecast forecast = testing::ExampleForecast(6 * kGiB);
  forecast.processes.push_back(forecast.processes[0]);
  forecast.processes[0].name = "python one.py";
  forecast.processes[1].name = "python two.py";
  forecast.processes[0].peaks.together = 11 * kGiB;
  forecast.shared = {{0, {0, 1}, 11 * kGiB, 12 * kGiB}};
  EXPECT_THAT(
      Text(AddVerdict, forecast),
      AllOf(HasSubstr("  too close to say: 6 GiB to 12 GiB, likely 11 GiB of 10 GiB."),
            HasSubstr("2 processes share GPU 0  together up to 11 GiB at a time; 12 GiB were all at their peaks"),
            HasSubstr("python one.py\n"), HasSubstr("python two.py\n")));
  forecast.fits_when_tight = false;
  EXPECT_THAT(Text(AddVerdict, forecast),
              HasSubstr("  does not fit: 11 GiB to 12 GiB are wanted, at least 1 GiB more"));
}

TEST(ForecastPageTest, WhatWasCutShortIsNotKnown) {
  const std::pair<RunEnd, const char*> ends[] = {
      {RunEnd::kTimedOut, "the program was ended after 300 s, 4 steps, at train.py:12 in converge (4.2 s)."},
      {RunEnd::kSpins, "waits for a value that no simulated kernel computes, at train.py:12 in converge. --pin"},
      {RunEnd::kFailed, "the program failed with exit code 1 after 4 steps (4.2 s)."}};
  for (const auto& [end, sentence] : ends) {
    EXPECT_THAT(Text(AddVerdict, testing::OpenForecast(end)),
                AllOf(HasSubstr("  not known: up to where it ended it needed 8 GiB of 10 GiB\n"), HasSubstr(sentence),
                      HasSubstr("what comes later may need more"), Not(HasSubstr("  fits"))));
  }
  EXPECT_THAT(Text(AddVerdict, testing::OpenForecast(RunEnd::kFailed)),
              HasSubstr("  The end of what it wrote:\n    line one\n    line two\n"));
  EXPECT_THAT(Text(AddVerdict, testing::OpenForecast(RunEnd::kTimedOut)), Not(HasSubstr("line one")));
}

TEST(ForecastPageTest, TheWaysToEnd) {
  Forecast forecast = testing::ExampleForecast();
  forecast.end = RunEnd::kStable;
  EXPECT_EQ(EndText(forecast), "stopped after step 4: the peak did not grow since step 2");
  forecast.end = RunEnd::kSteps;
  EXPECT_EQ(EndText(forecast), "stopped after step 4, as asked for; the peak grew last in step 2");
  forecast.end = RunEnd::kEnded;
  EXPECT_EQ(EndText(forecast), "ran to its end, 4 steps");
  forecast.processes[0].reported.steps = 1;
  EXPECT_EQ(EndText(forecast), "ran to its end, 1 step");
  forecast.processes.clear();
  EXPECT_EQ(EndText(forecast), "ran to its end, without a step of an optimizer");
}

TEST(ForecastPageTest, ACapabilityWithoutCode) {
  EXPECT_THAT(Text(AddFailure, testing::CapabilityForecast()),
              AllOf(HasSubstr("PyTorch 2.11.0 has no code for capability 8.6 of SIM10: it was built for sm_90, "
                              "compute_100. Install a PyTorch that has, or plan for another device.\n"),
                    Not(HasSubstr("No CUDA memory"))));
}

TEST(ForecastPageTest, WhatToDoWhereItFailedForAnotherReason) {
  EXPECT_THAT(AdviceOnFailure("RuntimeError: CUDA error: invalid device ordinal"), HasSubstr("--device-count"));
  EXPECT_THAT(AdviceOnFailure("OSError: Error no file named model.safetensors found in directory cfg."),
              HasSubstr("from_config"));
  EXPECT_THAT(AdviceOnFailure("OSError: We couldn't connect to 'https://huggingface.co' to load the files"),
              HasSubstr("cannot be reached"));
  EXPECT_EQ(AdviceOnFailure("OSError: [Errno 28] No space left on device"), "");
}

TEST(ForecastPageTest, AProgramWithoutCudaIsAnsweredWithWhatItWrote) {
  Forecast forecast = testing::OpenForecast(RunEnd::kFailed);
  forecast.processes.clear();
  forecast.output = "";
  for (int i = 0; i < 40; ++i) absl::StrAppend(&forecast.output, "line ", i, "\n\n");
  EXPECT_THAT(Text(AddFailure, forecast),
              AllOf(HasSubstr("No CUDA memory was used: the program failed with exit code 1 after 0 steps.\n"),
                    HasSubstr("  The end of what it wrote:\n    line 25\n"), HasSubstr("    line 39\n"),
                    Not(HasSubstr("line 24\n"))));
  forecast.output = "";
  EXPECT_THAT(Text(AddFailure, forecast), Not(HasSubstr("what it wrote")));
}

TEST(ForecastPageTest, SeveralProcessesHaveARowEach) {
  Forecast forecast = testing::ExampleForecast();
  EXPECT_THAT(Text(AddVerdict, forecast), Not(HasSubstr("processes used CUDA")));
  forecast.device_count = 2;
  PlannedProcess second = forecast.processes[0];
  second.reported.pid = 78;
  second.reported.rank = second.peaks.device = 1;
  second.peaks.process = 3 * kGiB;
  forecast.processes.push_back(second);
  EXPECT_THAT(
      Text(AddVerdict, forecast),
      AllOf(HasSubstr("on 2 x SIM10"),
            HasSubstr("2 processes used CUDA; above is rank 0, which needs most  The others need up to 5 GiB less\n"),
            ContainsRegex("77 +0 +0 +6.50 GiB +7 GiB +8 GiB"), ContainsRegex("78 +1 +1 +6.50 GiB +7 GiB +3 GiB")));
  forecast.processes[0].reported.rank = 2;
  forecast.processes[1].peaks.process = 8 * kGiB;
  EXPECT_THAT(Text(AddVerdict, forecast), AllOf(HasSubstr("above is rank 2, which needs most  All need the same\n"),
                                                ContainsRegex("78 +1 [^\n]+\n +77 +2 ")));
}

TEST(ForecastPageTest, ARankThatWasPosedIsSaid) {
  Forecast forecast = testing::ExampleForecast();
  EXPECT_THAT(Text(AddVerdict, forecast), Not(HasSubstr("simulated rank")));
  forecast.rank = 3;
  forecast.world_size = 64;
  EXPECT_THAT(Text(AddVerdict, forecast), HasSubstr("one process simulated rank 3 of 64: the others are not there"));
}

TEST(ForecastPageTest, ASearchShowsItsRuns) {
  Forecast forecast = testing::ExampleForecast();
  EXPECT_EQ(Text(AddVaried, forecast), "");
  forecast.searched = true;
  forecast.varied = {{{{"seq", 512}, {"batch", 8}}, testing::PeaksOfSize(8 * kGiB), true, ""},
                     {{{"seq", 512}, {"batch", 16}}, testing::PeaksOfSize(14 * kGiB), false, ""},
                     {{{"seq", 1024}, {"batch", 8}}, std::nullopt, false, "failed with exit code 1"}};
  EXPECT_THAT(Text(AddVaried, forecast), HasSubstr("Nothing that was tried fits  3 runs\n"));
  forecast.largest = {{"seq", 512}, {"batch", 8}};
  EXPECT_THAT(Text(AddVaried, forecast),
              AllOf(HasSubstr("The largest that fits: seq = 512, batch = 8  3 runs\n"),
                    ContainsRegex("seq +batch +allocated +reserved +nvidia-smi"),
                    ContainsRegex("512 +8 +6.50 GiB +7 GiB +8 GiB +fits\n"),
                    ContainsRegex("512 +16 +12.50 GiB +13 GiB +14 GiB +does not fit\n"),
                    ContainsRegex("1024 +8 +- +- +- +failed with exit code 1\n"),
                    HasSubstr("The next, seq = 512, batch = 16, needs 4 GiB more than there is\n")));
}

TEST(ForecastPageTest, ASearchSaysHowCloseTheNextValueIs) {
  Forecast forecast = testing::ExampleForecast();
  forecast.searched = true;
  forecast.margin = 0.05;
  const auto of = [](int64_t batch, uint64_t need, uint64_t wanted) {
    VariedRun run{{{"batch", batch}}, testing::PeaksOfSize(need), wanted <= 10 * kGiB, ""};
    run.wanted = wanted;
    return run;
  };
  forecast.varied = {of(8, 8 * kGiB, 9 * kGiB), of(64, 14 * kGiB, 15 * kGiB), of(9, 9 * kGiB, 10 * kGiB + kGiB / 2)};
  forecast.largest = {{"batch", 8}};
  EXPECT_THAT(Text(AddVaried, forecast),
              AllOf(HasSubstr("The largest that fits with 5 % of the device left free: batch = 8  3 runs\n"),
                    HasSubstr("The next, batch = 9, leaves 1 GiB (10 %), but the upper end of its range is 512 MiB "
                              "more than there is\n")));
  forecast.varied.back() = of(9, 10 * kGiB - kGiB / 4, 10 * kGiB + kGiB / 4);
  EXPECT_THAT(Text(AddVaried, forecast), HasSubstr("batch = 9, leaves 256 MiB (2.5 %): less than the margin\n"));
  forecast.varied.pop_back();
  EXPECT_THAT(Text(AddVaried, forecast), HasSubstr("The next, batch = 64, needs 4 GiB more than there is\n"));
  forecast.varied.back().wanted = 0;
  forecast.varied.back().note = "failed with exit code 1";
  EXPECT_THAT(Text(AddVaried, forecast), HasSubstr("The next, batch = 64, failed with exit code 1\n"));
}

TEST(ForecastPageTest, ChangesSayWhatTheyRestOn) {
  Forecast forecast = testing::ExampleForecast();
  EXPECT_EQ(Text(AddWhatIfs, forecast), "");
  forecast.what_ifs = {{"half the batch", testing::PeaksOfSize(5 * kGiB), std::nullopt, ""},
                       {"an 8-bit optimizer", std::nullopt, kGiB, "estimate: a quarter"},
                       {"worse", testing::PeaksOfSize(9 * kGiB), std::nullopt, ""},
                       {"untried", std::nullopt, std::nullopt, "why"},
                       {"more than there is", std::nullopt, 9 * kGiB, "estimate"}};
  EXPECT_THAT(Text(AddWhatIfs, forecast),
              AllOf(ContainsRegex(" 5 GiB +-3 GiB +half the batch"),
                    ContainsRegex(" 7 GiB +-1 GiB +an 8-bit optimizer +estimate: a quarter\n"),
                    ContainsRegex(" 9 GiB +\\+1 GiB +worse"), ContainsRegex(" - +untried +why\n"),
                    ContainsRegex(" 0 B +-9 GiB +more")));
}

TEST(ForecastPageTest, TimeIsToldByWhatTookIt) {
  const auto text = [](const TimeSpent& time) {
    TextStyle style;
    style.width = 1000;
    Document answer;
    AddTime(time, &answer);
    return ToText(answer, style);
  };
  EXPECT_THAT(text({0.5, 2.5, 3.25, 1.125, 1.5, 0.25, 3, 2.75, 9.5}),
              AllOf(HasSubstr("9.5 s, of these 3.2 s until the program used CUDA (interpreter 0.5 s, imports 2.5 s)"),
                    HasSubstr("2.8 s for 3 further runs")));
  const std::string alone = text({std::nullopt, std::nullopt, 3, std::nullopt, 1.5, 0.25, 0, 0, 5});
  for (const char* absent : {"imports", "first step", "further"}) EXPECT_THAT(alone, Not(HasSubstr(absent)));
}

TEST(ForecastPageTest, ConfidenceSpeaksOfWhatThereIs) {
  const std::string plain = Text(AddConfidence, testing::ExampleForecast());
  EXPECT_THAT(plain,
              AllOf(HasSubstr("How sure this is"), HasSubstr("512 MiB for CUDA's context, as SIMCUDA_CTX_MB says"),
                    HasSubstr("A Simulated GPU of 10 GiB: made up for tests."), HasSubstr("  streams ")));
  for (const char* absent : {"  data ", "  branches ", "  values ", "  pinned ", "are not measured"})
    EXPECT_THAT(plain, Not(HasSubstr(absent)));
  Forecast forecast = testing::DataForecast();
  forecast.reads.push_back({HostReadKind::kBranch, "", "train.py:40", 1, 1});
  forecast.reads.push_back({HostReadKind::kValue, "aten::item", "train.py:50", 9, 36});
  forecast.processes[0].reported.pinned = {{"n.item()", 3}};
  EXPECT_THAT(
      Text(AddConfidence, forecast),
      AllOf(
          HasSubstr("assumed to find everything, so the peak is an upper bound. Where they find nothing it is 6 GiB."),
          HasSubstr("train.py:30  aten::nonzero  4 times\n"), HasSubstr("train.py:40  1 time\n"),
          HasSubstr("train.py:50  aten::item  9 times\n"), HasSubstr("  pinned      n.item(), 3 times\n")));
}

// A page's text with its line breaks taken out.
std::string Joined(const Forecast& forecast) {
  std::string text = Text(AddConfidence, forecast);
  for (size_t at; (at = text.find('\n')) != std::string::npos;) text.replace(at, 1, " ");
  for (size_t at; (at = text.find("  ")) != std::string::npos;) text.erase(at, 1);
  return text;
}

TEST(ForecastPageTest, EachLibrarySaysHowItsWorkspacesAreKnown) {
  Forecast forecast = testing::ExampleForecast();
  forecast.processes[0].reported.workspaces = testing::SomeWorkspaces();
  EXPECT_THAT(Joined(forecast),
              AllOf(HasSubstr("Those of cuDNN (2 operations) are as measured on this GPU."),
                    HasSubstr("Those of cuFFT (4 operations) are as measured on another GPU of this capability"),
                    HasSubstr("Those of cuDNN (1 operation) are as SIMCUDA_CUDNN_WS and the like set them."),
                    HasSubstr("Those of cuFFT (1 operation) count with the most that they can be"),
                    HasSubstr("Those of cuDNN (3 operations), cuSPARSE (1 operation) are not measured for this GPU and "
                              "count as 0."),
                    HasSubstr("Those of cuSPARSE (1 operation) have no bound that is known either."),
                    Not(HasSubstr("at most"))));
  forecast.with_bounds = testing::PeaksOfSize(9 * kGiB);
  EXPECT_THAT(Joined(forecast),
              HasSubstr("it would be at most 7.50 GiB allocated (+1 GiB), 9 GiB in nvidia-smi (+1 GiB)"));
}

TEST(ForecastPageTest, TheContextSaysHowItIsKnown) {
  Forecast forecast = testing::ExampleForecast();
  for (const auto& [known, words] : {std::pair("measured", "333 MiB for CUDA's context, as measured on this GPU;"),
                                     std::pair("similar", "as measured on a GPU of this capability;"),
                                     std::pair("set", "as SIMCUDA_CTX_MB says;"), std::pair("nothing", "a guess;")}) {
    forecast.processes[0].reported.context = {333 * kMiB, known};
    EXPECT_THAT(Joined(forecast), HasSubstr(words));
  }
}

TEST(ForecastPageTest, ValuesThatCouldNotBeComputedAreReported) {
  Forecast forecast = testing::ExampleForecast();
  EXPECT_THAT(Text(AddConfidence, forecast), Not(HasSubstr("were not computed")));
  forecast.processes[0].reported.values_failed = "AttributeError: _handle";
  EXPECT_THAT(
      Text(AddConfidence, forecast),
      HasSubstr("  values      values that decide were not computed (AttributeError: _handle): they count as 0.\n"));
}

TEST(ForecastPageTest, EachPolicyHasItsWords) {
  Forecast forecast = testing::DataForecast();
  forecast.with_zero.reset();
  forecast.data_dependent = "zero";
  EXPECT_THAT(Text(AddConfidence, forecast), HasSubstr("assumed to find nothing, so the peak is a lower bound."));
  forecast.data_dependent = "0.25";
  EXPECT_THAT(Text(AddConfidence, forecast), HasSubstr("assumed to find 0.25 of all elements. --data-dependent"));
}

// An upper bound that is none would be a wrong number.
TEST(ForecastPageTest, SizesThatAreNotCountedAreNamed) {
  Forecast forecast = testing::DataForecast();
  forecast.reads.push_back({HostReadKind::kShape, "aten::_unique2", "train.py:31", 1, 8});
  EXPECT_THAT(Text(AddConfidence, forecast), Not(HasSubstr("Not so")));
  forecast.reads.push_back({HostReadKind::kShape, "aten::unique_dim", "train.py:32", 1, 8});
  forecast.reads.push_back({HostReadKind::kShape, "aten::bincount", "train.py:33", 1, 8});
  forecast.reads.push_back({HostReadKind::kShape, "aten::bincount", "train.py:34", 1, 8});
  EXPECT_THAT(Text(AddConfidence, forecast),
              HasSubstr(" Not so aten::unique_dim, aten::bincount: what it finds is that of zeros, and may be more."));
}

TEST(ForecastPageTest, StreamsMatterWhereTheProgramAsksForThem) {
  Forecast forecast = testing::ExampleForecast();
  EXPECT_THAT(Text(AddConfidence, forecast),
              HasSubstr("  streams     the program never asked whether a kernel is done"));
  forecast.processes[0].reported.event_queries = 3;
  EXPECT_THAT(Text(AddConfidence, forecast), HasSubstr("a GPU may keep blocks longer."));
  forecast.with_late_events = testing::PeaksOfSize(9 * kGiB);
  EXPECT_THAT(Text(AddConfidence, forecast), HasSubstr("PyTorch reserves 8 GiB instead of 7 GiB, and 7.50 GiB are"));
}

TEST(ForecastPageTest, ManyLinesAreCounted) {
  Forecast forecast = testing::ExampleForecast();
  for (int i = 1; i <= 9; ++i)
    forecast.reads.push_back({HostReadKind::kValue, "aten::item", absl::StrCat("train.py:", i), 1, 4});
  EXPECT_THAT(Text(AddConfidence, forecast),
              AllOf(HasSubstr("train.py:6 "), Not(HasSubstr("train.py:7 ")), HasSubstr("and 3 more: --json has all")));
}

}  // namespace
}  // namespace gpumem::plan
