// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/compare/check.h"

#include <gmock/gmock.h>

#include "facts.h"

namespace gpumem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kMiB;

MATCHER_P2(Is, name, result, "") { return arg.name == name && arg.result == result; }

constexpr auto kPassed = CheckResult::kPassed, kFailed = CheckResult::kFailed, kUnknown = CheckResult::kUnknown,
               kTooClose = CheckResult::kTooClose;

CheckedRun RunWith(uint64_t peak) {
  CheckedRun run;
  run.name = "run.gmtrace";
  run.peak = CheckedBytes::Exact(peak);
  run.reserved = CheckedBytes::Exact(2 * peak);
  run.total = CheckedBytes::Exact(3 * peak);
  run.leak = 100;
  run.fragmentation = 0.25;
  return run;
}

Limits Of(const std::string& yaml) {
  const absl::StatusOr<Limits> limits = ParseLimits(yaml, "budget.yaml", "");
  EXPECT_TRUE(limits.ok()) << limits.status();
  return limits.ok() ? *limits : Limits();
}

TEST(CheckTest, EveryLimitHasAVerdict) {
  const Limits limits =
      Of("max_peak: 100\nmax_reserved: 199\nmax_total: 300\nmax_leak: 99/step\nmax_fragmentation: 25%");
  const auto lines = CheckRun(RunWith(100), limits, nullptr, "");
  EXPECT_THAT(lines, ElementsAre(Is("max_peak", kPassed), Is("max_reserved", kFailed), Is("max_total", kPassed),
                                 Is("max_leak", kFailed), Is("max_fragmentation", kPassed)));
  EXPECT_EQ(ExitCodeOfCheck(lines), 1);
  EXPECT_EQ(ExitCodeOfCheck({lines[0]}), 0);
}

// Of a run whose end is missing.
CheckedRun AtLeast(uint64_t peak) {
  CheckedRun run = RunWith(peak);
  run.doubt = "the program was killed before it was done";
  for (auto* each : {&run.peak, &run.reserved, &run.total}) (*each)->most.reset();
  return run;
}

TEST(CheckTest, WhatIsOnlyTheLeastIsNeverPassed) {
  CheckedRun run = AtLeast(100);
  const auto lines = CheckRun(run, Of("max_peak: 100\nmax_reserved: 199\nmax_leak: 1GiB"), nullptr, "");
  EXPECT_THAT(lines, ElementsAre(Is("max_peak", kUnknown), Is("max_reserved", kFailed), Is("max_leak", kUnknown)));
  EXPECT_EQ(ExitCodeOfCheck({lines[0]}), 7);
  EXPECT_EQ(lines[0].measured, "at least 100 B");
  EXPECT_TRUE(lines[0].is_least && lines[1].is_least);
  EXPECT_FALSE(CheckRun(RunWith(100), Of("max_peak: 100"), nullptr, "")[0].is_least);
  run.leak.reset();
  run.doubt.clear();
  EXPECT_THAT(CheckRun(run, Of("max_leak: 1GiB"), nullptr, ""), ElementsAre(Is("max_leak", kUnknown)));
}

TEST(CheckTest, WhereFreesAreMissingNothingFailsEither) {
  CheckedRun run = AtLeast(100);
  run.peak->least = 0;
  run.leak_is_exact = run.fragmentation_is_exact = false;
  EXPECT_THAT(CheckRun(run, Of("max_peak: 1\nmax_leak: 1\nmax_fragmentation: 1%"), nullptr, ""),
              ElementsAre(Is("max_peak", kUnknown), Is("max_leak", kUnknown), Is("max_fragmentation", kUnknown)));
}

TEST(CheckTest, ARefusedRequestWasNeededToo) {
  CheckedRun run = AtLeast(100);
  run.refused = "it asked for 50 B more and ran out of memory";
  run.peak->least = 150;
  const auto lines = CheckRun(run, Of("max_peak: 149"), nullptr, "");
  EXPECT_THAT(lines, ElementsAre(Is("max_peak", kFailed)));
  EXPECT_EQ(lines[0].why, run.refused);
  EXPECT_THAT(CheckRun(run, Of("max_peak: 150"), nullptr, ""), ElementsAre(Is("max_peak", kUnknown)));
}

TEST(CheckTest, AnUncertainBaselineDecidesOnlyWhatItCan) {
  CheckedRun baseline = AtLeast(100);  // its true peak may be higher
  const Limits limits = Of("baseline: main.gmtrace");
  const auto lines = CheckRun(RunWith(100), limits, &baseline, "");
  EXPECT_THAT(lines, ElementsAre(Is("baseline_peak", kPassed), Is("baseline_reserved", kPassed)));
  const auto higher = CheckRun(RunWith(101), limits, &baseline, "");
  EXPECT_THAT(higher, ElementsAre(Is("baseline_peak", kUnknown), Is("baseline_reserved", kUnknown)));
  EXPECT_THAT(higher[0].why, HasSubstr("of the baseline: the program was killed"));
  baseline.peak.reset();
  EXPECT_THAT(CheckRun(RunWith(1), limits, &baseline, ""),
              ElementsAre(Is("baseline_peak", kUnknown), Is("baseline_reserved", kPassed)));
}

TEST(CheckTest, ABaselineIsALimitWithTolerance) {
  const CheckedRun baseline = RunWith(100);
  const Limits limits = Of("baseline: main.gmtrace\ntolerance: 2%");
  EXPECT_THAT(CheckRun(RunWith(102), limits, &baseline, ""),
              ElementsAre(Is("baseline_peak", kPassed), Is("baseline_reserved", kPassed)));
  const auto lines = CheckRun(RunWith(103), limits, &baseline, "+3 B at the peak: x");
  EXPECT_THAT(lines, ElementsAre(Is("baseline_peak", kFailed), Is("baseline_reserved", kFailed)));
  EXPECT_EQ(lines[0].why, "+3 B at the peak: x");
}

TEST(LimitsTest, MistakesNameTheLine) {
  const auto message = [](const std::string& yaml) {
    return std::string(ParseLimits(yaml, "b.yaml", "").status().message());
  };
  EXPECT_THAT(message("max_peak: 1GiB\nmax_pek: 1"), HasSubstr("b.yaml:2: \"max_pek\" is not a limit; these are"));
  EXPECT_THAT(message("max_peak: many"), HasSubstr("b.yaml:1: max_peak: many is not a size"));
  EXPECT_THAT(message("max_fragmentation: -1%"), HasSubstr("is not a percentage"));
  EXPECT_THAT(message("max_peak: 1\nmax_peak: 2"), HasSubstr("b.yaml:2: max_peak is there twice"));
  EXPECT_THAT(message("max_peak: [1]"), HasSubstr("a limit is one value"));
  EXPECT_THAT(message(""), HasSubstr("b.yaml:1:"));
  EXPECT_THAT(message("tolerance: 2%"), HasSubstr("no limit in it"));
  EXPECT_THAT(message("{"), HasSubstr("b.yaml:"));
  EXPECT_EQ(ParseLimits("baseline: x", "b.yaml", "dir")->baseline, "dir/x");
}

std::string PlanJson(const std::string& rest) {
  return R"({"command": "plan", "verdict": "fits", "peak": {"device": 0, "allocated_bytes": 70, "reserved_bytes": 100,
             "process_bytes": 120}, )" +
         rest + "}";
}

TEST(PlanTest, PeaksOfAPlanAreChecked) {
  const absl::StatusOr<CheckedRun> run = ParsePlanJson(
      PlanJson(R"("range": {"low_bytes": 120, "likely_bytes": 120, "high_bytes": 120, "bounded": true}, "doubts": [])"),
      "plan.json");
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_THAT(CheckRun(*run, Of("max_peak: 70\nmax_total: 119\nmax_fragmentation: 20%\nmax_leak: 1"), nullptr, ""),
              ElementsAre(Is("max_peak", kPassed), Is("max_total", kFailed), Is("max_leak", kUnknown),
                          Is("max_fragmentation", kFailed)));
  EXPECT_THAT(CheckRun(*run, Of("max_fragmentation: 40%"), nullptr, ""),
              ElementsAre(Is("max_fragmentation", kUnknown)));
}

TEST(PlanTest, ALimitInsideTheRangeIsTooCloseToSay) {
  const absl::StatusOr<CheckedRun> run = ParsePlanJson(
      PlanJson(R"("range": {"low_bytes": 100, "likely_bytes": 120, "high_bytes": 150, "bounded": true}, "doubts": [
          {"kind": "context", "what": "a guess", "less_bytes": 10, "more_bytes": 20},
          {"kind": "data", "what": "what nonzero finds", "less_bytes": 10, "more_bytes": 10, "settle": "--x"}])"),
      "plan.json");
  ASSERT_TRUE(run.ok()) << run.status();
  const auto result = [&](const std::string& limit) { return CheckRun(*run, Of(limit), nullptr, "")[0]; };
  EXPECT_THAT(result("max_peak: 59"), Is("max_peak", kFailed));
  EXPECT_THAT(result("max_peak: 60"), Is("max_peak", kTooClose));
  EXPECT_EQ(result("max_peak: 79").measured, "60 B to 80 B");
  EXPECT_EQ(result("max_peak: 79").why, "what nonzero finds. To settle it: --x");
  EXPECT_THAT(result("max_peak: 80"), Is("max_peak", kPassed));
  EXPECT_THAT(result("max_total: 99"), Is("max_total", kFailed));
  EXPECT_THAT(result("max_total: 149"), Is("max_total", kTooClose));
  EXPECT_EQ(result("max_total: 149").why, "a guess; what nonzero finds. To settle it: --x");
  EXPECT_THAT(result("max_total: 150"), Is("max_total", kPassed));
  EXPECT_EQ(ExitCodeOfCheck(CheckRun(*run, Of("max_peak: 59\nmax_total: 149"), nullptr, "")), 1);
  EXPECT_EQ(ExitCodeOfCheck(CheckRun(*run, Of("max_peak: 80\nmax_total: 149\nmax_leak: 1"), nullptr, "")), 5);
  EXPECT_EQ(ExitCodeOfCheck(CheckRun(*run, Of("max_peak: 80\nmax_leak: 1"), nullptr, "")), 7);
  const std::vector<CheckLine> close = CheckRun(*run, Of("max_total: 149"), nullptr, "");
  EXPECT_THAT(FormatCheck(close, CheckFormat::kText), HasSubstr("  too close  max_total"));
  EXPECT_THAT(FormatCheck(close, CheckFormat::kJUnit), HasSubstr("errors=\"1\""));
  EXPECT_THAT(FormatCheck(close, CheckFormat::kGitHub), HasSubstr("::warning title=gpumemshim max_total too close::"));
}

TEST(PlanTest, WhatHasNoUpperEndNeverPasses) {
  for (const char* rest :
       {R"("range": {"low_bytes": 120, "likely_bytes": 120, "high_bytes": 120, "bounded": false}, "doubts": [
            {"kind": "later_steps", "what": "a longer batch", "less_bytes": 0, "more_bytes": null}])",
        R"("confidence": {"unknown_workspaces": ["cudnn"]})", R"("x": 1)"}) {
    const absl::StatusOr<CheckedRun> run = ParsePlanJson(PlanJson(rest), "plan.json");
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_THAT(CheckRun(*run, Of("max_peak: 1TiB\nmax_total: 1TiB"), nullptr, ""),
                ElementsAre(Is("max_peak", kUnknown), Is("max_total", kUnknown)));
    EXPECT_THAT(CheckRun(*run, Of("max_peak: 1TiB"), nullptr, "")[0].measured, HasSubstr("no upper bound"));
    EXPECT_THAT(CheckRun(*run, Of("max_peak: 69"), nullptr, ""), ElementsAre(Is("max_peak", kFailed)));
  }
}

TEST(PlanTest, AnythingElseIsNoPlan) {
  EXPECT_FALSE(ParsePlanJson("[]", "x.json").ok());
  EXPECT_FALSE(ParsePlanJson("{\"command\": \"report\"}", "x.json").ok());
  EXPECT_FALSE(ParsePlanJson(std::string(100'000, '['), "x.json").ok());
  EXPECT_FALSE(ParsePlanJson(R"({"command": "plan", "verdict": "fits", "peak": {"allocated_bytes": -1}})", "x").ok());
  const auto open = ParsePlanJson(R"({"command": "plan", "verdict": "unknown", "peak": null})", "x.json");
  ASSERT_TRUE(open.ok());
  EXPECT_THAT(CheckRun(*open, Of("max_peak: 1TiB"), nullptr, ""), ElementsAre(Is("max_peak", kUnknown)));
}

TEST(FormatTest, HostileNamesStayInTheirPlace) {
  CheckedRun run = RunWith(kMiB);
  run.name = "a\"<b>&\n::error::x\x1b[31m";
  const auto lines = CheckRun(run, Of("max_peak: 1"), nullptr, "");
  const std::string github = FormatCheck(lines, CheckFormat::kGitHub);
  EXPECT_EQ(std::count(github.begin(), github.end(), '\n'), 1);
  EXPECT_THAT(github, HasSubstr("::error title=gpumemshim max_peak failed::"));
  const std::string junit = FormatCheck(lines, CheckFormat::kJUnit);
  EXPECT_THAT(junit, HasSubstr("tests=\"1\" failures=\"1\" errors=\"0\""));
  EXPECT_THAT(junit, ::testing::Not(HasSubstr("<b>")));
  EXPECT_THAT(junit, ::testing::Not(HasSubstr("\x1b")));
  EXPECT_THAT(FormatCheck(lines, CheckFormat::kText), HasSubstr("  failed     max_peak           1 MiB, at most 1 B"));
}

}  // namespace
}  // namespace gpumem
