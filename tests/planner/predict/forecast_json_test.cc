// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "example_forecast.h"
#include "planner/predict/plan_answer.h"
#include "render/draw.h"
#include "testing/key_tables.h"

namespace gpumem::plan {
namespace {

using nlohmann::json;
using testing::kGiB;
using testing::kMiB;

json Parsed(const Forecast& forecast) { return json::parse(ToJson(PlanAnswer(forecast))); }

TEST(ForecastJsonTest, HasAWordForEachVerdict) {
  const std::pair<Forecast, const char*> verdicts[] = {{testing::ExampleForecast(), "fits"},
                                                       {testing::TightForecast(), "fits"},
                                                       {testing::DataForecast(), "too_close"},
                                                       {testing::TooLargeForecast(), "does_not_fit"},
                                                       {testing::OpenForecast(RunEnd::kTimedOut), "unknown"},
                                                       {testing::OpenForecast(RunEnd::kSpins), "unknown"},
                                                       {testing::OpenForecast(RunEnd::kFailed), "unknown"},
                                                       {testing::CapabilityForecast(), "unknown"},
                                                       {Forecast{}, "unknown"}};
  for (const auto& [forecast, word] : verdicts) {
    const json answer = Parsed(forecast);
    EXPECT_EQ(answer["verdict"], word);
    EXPECT_EQ(answer["fits"], std::string(word) == "fits") << word;
  }
  Forecast late = testing::OpenForecast(RunEnd::kFailed);
  late.processes[0].peaks.process = 11 * kGiB;
  EXPECT_EQ(Parsed(late)["verdict"], "does_not_fit");
}

TEST(ForecastJsonTest, SaysAllThatIsKnown) {
  Forecast forecast = testing::DataForecast();
  forecast.processes[0].peaks = testing::PeaksOfSize(8 * kGiB);
  forecast.processes[0].name = "python train.py";
  forecast.processes[0].reported.pinned = {{"n.item()", 3}};
  forecast.processes[0].reported.workspaces = testing::SomeWorkspaces();
  forecast.with_bounds = testing::PeaksOfSize(8 * kGiB);
  forecast.time = {0.5, 2.5, 3.25, std::nullopt, 1.5, 0.25, 3, 2.75, 8.5};
  EXPECT_EQ(Parsed(forecast), json::parse(R"json({
    "schema_version": 3, "command": "plan", "simulated": true,
    "command_line": ["python", "train.py", "--batch-size", "8"],
    "device": {"name": "SIM10", "full_name": "A Simulated GPU of 10 GiB", "count": 1, "memory_bytes": 10737418240,
               "capability": "8.6", "multiprocessors": 40, "source": "made up for tests"}, "simulated_rank": null,
    "verdict": "fits_unless", "fits": false,
    "range": {"low_bytes": 6442450944, "likely_bytes": 8589934592, "high_bytes": null, "bounded": false},
    "doubts": [
      {"kind": "workspaces", "what": "workspaces of libraries, for which no bound is known", "less_bytes": 0,
       "more_bytes": null, "settle": "scripts/gpu_check --workspaces on such a GPU"},
      {"kind": "data", "what": "how much nonzero, masks and unique find", "less_bytes": 2147483648, "more_bytes": 0,
       "settle": "--data-dependent expect=SHARE"}],
    "tight": null,
    "peak": {"device": 0, "allocated_bytes": 6979321856, "reserved_bytes": 7516192768, "process_bytes": 8589934592,
             "context_bytes": 536870912, "other_bytes": 536870912, "device_bytes": 8589934592},
    "end": "ended", "exit_code": 0, "stuck_at": "", "last_lines": [], "seconds": 4.25,
    "time": {"total_s": 8.5, "interpreter_s": 0.5, "imports_s": 2.5, "before_cuda_s": 3.25, "first_step_s": null,
             "later_s": 1.5, "reading_s": 0.25, "further_runs": 3, "further_runs_s": 2.75},
    "processes": [{"pid": 77, "rank": 0, "steps": 4, "last_growth": 2, "torch": "2.11.0",
                   "command": "python train.py", "values_failed": null, "managed_bytes": 0, "pinned_host_bytes": 0, "refused_requests": 0,
                   "trace": "plan.python.77.gmtrace",
                   "peak": {"device": 0, "allocated_bytes": 6979321856, "reserved_bytes": 7516192768,
                            "process_bytes": 8589934592, "context_bytes": 536870912, "other_bytes": 536870912, "device_bytes": 8589934592}}],
    "skew_bytes": 0, "shared_devices": [],
    "confidence": {
      "data_dependent": "upper",
      "peak_where_data_find_nothing": {"device": 0, "allocated_bytes": 4831838208, "reserved_bytes": 5368709120,
                                       "process_bytes": 6442450944, "context_bytes": 536870912,
                                       "other_bytes": 536870912, "device_bytes": 6442450944},
      "peak_with_other_values": null, "least_peak_with_other_values": null, "peak_where_kernels_lag_behind": null,
      "host_reads": [{"kind": "shape", "operation": "aten::nonzero", "site": "train.py:30", "count": 4, "bytes": 32}],
      "pinned": {"n.item()": 3}, "unknown_workspaces": ["cuDNN", "cuSPARSE"],
      "workspaces": [
        {"library": "cuDNN", "set": 1, "measured": 2, "similar": 0, "law": 0, "bounded": 0, "unknown": 3,
         "without_bound": 0, "largest_bytes": 7, "largest_bound_bytes": 9},
        {"library": "cuFFT", "set": 0, "measured": 0, "similar": 4, "law": 0, "bounded": 1, "unknown": 0,
         "without_bound": 0, "largest_bytes": 8, "largest_bound_bytes": 0},
        {"library": "cuSPARSE", "set": 0, "measured": 0, "similar": 0, "law": 0, "bounded": 0, "unknown": 1,
         "without_bound": 1, "largest_bytes": 0, "largest_bound_bytes": 0}],
      "peak_where_workspaces_are_bounds": {"device": 0, "allocated_bytes": 6979321856, "reserved_bytes": 7516192768,
                                           "process_bytes": 8589934592, "context_bytes": 536870912,
                                           "other_bytes": 536870912, "device_bytes": 8589934592},
      "peaks_where_workspaces_are_drawn": [],
      "context": {"bytes": 536870912, "known": "set"}},
    "what_if": []})json"));
}

TEST(ForecastJsonTest, TheTableOfTheManualIsWhatItDeclares) {
  Forecast forecast = testing::DataForecast();
  forecast.world_size = 64;
  forecast.shared = {{0, {0, 0}, kGiB, kGiB}};
  forecast.processes[0].reported.workspaces = testing::SomeWorkspaces();
  forecast.fits_when_tight = forecast.searched = true;
  forecast.varied.resize(1);
  forecast.what_ifs.resize(1);
  forecast.explanation.emplace().ways.resize(1);
  const Document plan = PlanAnswer(forecast);
  gpumem::testing::ExpectKeyTables({{"plan", plan}});
}

TEST(ForecastJsonTest, RanksThatDifferAndOneThatPoses) {
  Forecast forecast = testing::ExampleForecast();
  forecast.rank = 3;
  forecast.world_size = 64;
  forecast.processes.push_back(forecast.processes[0]);
  forecast.processes[1].peaks.process -= kMiB;
  EXPECT_EQ(Parsed(forecast)["simulated_rank"], (json{{"rank", 3}, {"world_size", 64}}));
  EXPECT_EQ(Parsed(forecast)["skew_bytes"], kMiB);
  EXPECT_EQ(Parsed(Forecast{})["skew_bytes"], 0);
}

TEST(ForecastJsonTest, WithoutAnAnswerNumbersAreNull) {
  Forecast forecast = testing::CapabilityForecast();
  forecast.processes[0].trace = "";
  const json answer = Parsed(forecast);
  EXPECT_TRUE(answer["peak"].is_null());
  EXPECT_EQ(answer["end"], "capability");
  EXPECT_TRUE(answer["processes"][0]["peak"].is_null());
  EXPECT_TRUE(answer["processes"][0]["trace"].is_null());
  EXPECT_TRUE(answer["confidence"]["peak_where_data_find_nothing"].is_null());
  EXPECT_EQ(Parsed(Forecast{})["processes"], json::array());
}

TEST(ForecastJsonTest, SaysWhatIsKeptWhereKernelsLagBehind) {
  Forecast forecast = testing::ExampleForecast();
  forecast.with_late_events = testing::PeaksOfSize(9 * kGiB);
  EXPECT_EQ(Parsed(forecast)["confidence"]["peak_where_kernels_lag_behind"]["process_bytes"], 9 * kGiB);
}

TEST(ForecastJsonTest, TellsRunsFromEstimates) {
  Forecast forecast = testing::ExampleForecast();
  forecast.what_ifs = {{"--batch-size 4 instead of 8", testing::PeaksOfSize(5 * kGiB), std::nullopt, ""},
                       {"an 8-bit optimizer", std::nullopt, 300 * kMiB, "estimate: a quarter"}};
  const json changes = Parsed(forecast)["what_if"];
  EXPECT_EQ(changes[0]["change"], "--batch-size 4 instead of 8");
  EXPECT_EQ(changes[0]["peak"]["process_bytes"], 5 * kGiB);
  EXPECT_TRUE(changes[0]["estimated_saving_bytes"].is_null());
  EXPECT_TRUE(changes[1]["peak"].is_null());
  EXPECT_EQ(changes[1]["estimated_saving_bytes"], 300 * kMiB);
  EXPECT_EQ(changes[1]["note"], "estimate: a quarter");
}

TEST(ForecastJsonTest, ASearchHasItsRuns) {
  Forecast forecast = testing::ExampleForecast();
  EXPECT_FALSE(Parsed(forecast).contains("vary"));
  forecast.searched = true;
  EXPECT_TRUE(Parsed(forecast)["vary"]["largest"].is_null());
  forecast.varied = {{{{"seq", 512}, {"batch", 8}}, testing::PeaksOfSize(8 * kGiB), true, ""},
                     {{{"seq", 512}, {"batch", 9}}, std::nullopt, false, "failed with exit code 1"}};
  forecast.largest = {{"seq", 512}, {"batch", 8}};
  const json vary = Parsed(forecast)["vary"];
  EXPECT_EQ(vary["largest"], (json{{"seq", 512}, {"batch", 8}}));
  EXPECT_EQ(vary["runs"][0]["values"], (json{{"seq", 512}, {"batch", 8}}));
  EXPECT_EQ(vary["runs"][0]["fits"], true);
  EXPECT_EQ(vary["runs"][0]["peak"]["process_bytes"], 8 * kGiB);
  EXPECT_TRUE(vary["runs"][1]["peak"].is_null());
  EXPECT_EQ(vary["runs"][1]["fits"], false);
  EXPECT_EQ(vary["runs"][1]["note"], "failed with exit code 1");
  EXPECT_TRUE(vary["runs"][1]["wanted_bytes"].is_null());
  EXPECT_EQ(vary["margin"], 0);
  EXPECT_EQ(vary["next_larger"], (json{{"seq", 512}, {"batch", 9}}));
}

TEST(ForecastJsonTest, EndsAndKindsHaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (int i = 0; i <= static_cast<int>(RunEnd::kCapability); ++i)
    names.insert(std::string(RunEndName(static_cast<RunEnd>(i))));
  EXPECT_EQ(names.size(), 7u);
  EXPECT_EQ(names.count(""), 0u);
  names.clear();
  for (int i = 0; i <= static_cast<int>(HostReadKind::kCopy); ++i)
    names.insert(std::string(HostReadKindName(static_cast<HostReadKind>(i))));
  EXPECT_EQ(names, (std::set<std::string>{"shape", "branch", "value", "copy"}));
}

TEST(ForecastJsonTest, WhatThePeakIsMadeOfStandsAmongIt) {
  const Forecast forecast = testing::ExampleForecast();
  Document peak;
  peak.Field("categories", 7, "");
  const std::string text = ToJson(PlanAnswer(forecast, peak));
  EXPECT_EQ(json::parse(text)["categories"], 7);
  EXPECT_EQ(text.back(), '\n');
}

// The program's own words.
TEST(ForecastJsonTest, AnyBytesAreJson) {
  Forecast forecast = testing::ExampleForecast();
  forecast.command = {"python", "\xff\x1b[31m\"\\"};
  forecast.reads = {{HostReadKind::kCopy, "\xc3", "\n\"", 1, 1}};
  forecast.processes[0].reported.torch = "\xe2\x82";
  forecast.processes[0].reported.pinned = {{"\xff", 1}};
  EXPECT_EQ(Parsed(forecast)["verdict"], "fits");
}

}  // namespace
}  // namespace gpumem::plan
