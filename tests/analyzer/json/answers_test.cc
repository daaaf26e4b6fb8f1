// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// budget: one list of the keys of all commands, since the whole of it is compared with docs/json.md.

#include "json/answers.h"

#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "../report/fixture.h"
#include "json/attribution.h"
#include "json/parts.h"
#include "json/what_if.h"
#include "report/process_list.h"

namespace gpumem {
namespace {

using nlohmann::json;
using testing::Example;

// Objects whose keys are data.
bool HasDataForKeys(const std::string& key) {
  static const std::set<std::string> kKeys = {"by_kind",     "versions", "settings",       "environment",
                                              "by_category", "by_stage", "components",     "stages",
                                              "stage_paths", "known_by", "bytes_by_dtype", "bytes_by_device"};
  return kKeys.count(key) != 0;
}

void CollectKeys(const json& value, std::set<std::string>* keys) {
  if (value.is_array()) {
    for (const json& element : value) CollectKeys(element, keys);
  }
  if (!value.is_object()) return;
  for (const auto& [key, member] : value.items()) {
    keys->insert(key);
    if (!HasDataForKeys(key)) CollectKeys(member, keys);
  }
}

// Names in back quotes in the first column of the tables of docs/json.md.
std::set<std::string> DocumentedKeys() {
  std::ifstream file(GPUMEM_DOCS_FOLDER "/json.md");
  std::set<std::string> keys;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("| `", 0) != 0) continue;
    const std::string column = line.substr(0, line.find(" | "));
    for (size_t at = column.find('`'); at != std::string::npos; at = column.find('`', at + 1)) {
      const size_t end = column.find('`', at + 1);
      keys.insert(column.substr(at + 1, end - at - 1));
      at = end;
    }
  }
  return keys;
}

std::vector<json> AllAnswers() {
  Example example = testing::OomExample();
  testing::AddAttribution(&example);
  testing::AddLeak(&example, uint64_t{1} << 30);
  const ReportInput input = example.input();
  const DeviceAnalysis* device = &example.analysis.devices[0];
  std::vector<json> answers;
  for (const std::string& text :
       {ReportJson(input, 0), TimelineJson(input), LeaksJson(input, 0), OomJson(input, 0), FragmentationJson(input, 0),
        PeakJson(input, device, Measure::kAllocated, 0), InfoJson(input, {}), AtJson(input, "peak", 0),
        StepsJson(input, 0), ModulesJson(input, 0), ModelJson(input, example.objects, 0)}) {
    answers.push_back(json::parse(text));
  }
  WhatIfAnswer what_if;
  what_if.why_not = "no Python with PyTorch found";
  answers.push_back(json::parse(FragmentationJson(input, &what_if, 0)));
  EXPECT_EQ(answers.back()["what_if"]["replayed"], false);
  what_if.why_not.clear();
  what_if.is_exact = true;
  what_if.other = {"expandable_segments:True", 5 << 20, 3 << 20};
  answers.push_back(json::parse(OomJson(input, &what_if, 0)));
  EXPECT_EQ(answers.back()["what_if"]["other"]["fit_bytes"], 3 << 20);
  ListedProcess listed = Listed(example.analysis);
  listed.process.ancestors.push_back({4200, 1, "torchrun"});
  answers.push_back(json::parse(ProcessListJson({listed}, "runs")));
  return answers;
}

// Keys of `ctl tensors`, `gradients`, `gc` and `eval`, which tests/e2e/live_test.py looks at, and of stages
// (stages_test.py).
const std::set<std::string> kKeysOfLiveTensors = {
    "gradients",  "holders",   "inf",           "left_out", "max",     "mean",    "min",
    "nan",        "norm",      "requires_grad", "shares",   "tensors", "derived", "unlisted_stages",
    "cache_kept", "collected", "evaluated",     "chain"};

// Keys of ctl, which tests/hosts/control_test.py compares with the program's output, and of marks, which the example
// has not.
const std::set<std::string> kKeysOfCtlAndMarks = {"was_there",
                                                  "stopped_ns",
                                                  "existing_blocks",
                                                  "existing_bytes",
                                                  "asked",
                                                  "processes",
                                                  "state",
                                                  "recording_for_ns",
                                                  "lost_events",
                                                  "ring_bytes",
                                                  "ring_used_bytes",
                                                  "ring_high_bytes",
                                                  "snapshot_file",
                                                  "snapshot_bytes",
                                                  "text",
                                                  "number",
                                                  "tid"};

// Keys of doctor and dump, which tests/analyzer/commands compares with the program's output.
const std::set<std::string> kOtherCommandsKeys = {
    "recorded", "conclusion", "change",      "health",     "findings", "check", "found",
    "next",     "sequence",   "file_offset", "compressed", "type",     "data",  "kind",
    "address",  "size_bytes", "stream",      "handle",     "took_ns",  "stack", "tag"};

// Keys of serve, which tests/e2e/serve_test.py reads.
const std::set<std::string> kKeysOfServe = {"port", "token"};

// Keys of doctor --cross-check, which tests/hosts/cross_check_test.py compares with its answers.
const std::set<std::string> kKeysOfCrossCheck = {
    "cross_check",  "compared",        "both",   "only_us", "only_cupti",
    "unexplained",  "seen_by",         "api",    "calls",   "other_size",
    "library",      "version",         "error",  "records", "dropped_records",
    "lost_records", "unknown_records", "traces", "rows",    "bytes",
    "cause",        "processes",       "state"};

// Keys of diff, compare and check, which tests/e2e/diff_test.py compares with their answers.
const std::set<std::string> kKeysOfDiff = {"headline",
                                           "runs",
                                           "unused_share",
                                           "growth_per_step",
                                           "checks",
                                           "subject",
                                           "delta_bytes",
                                           "cause",
                                           "doubts",
                                           "a",
                                           "b",
                                           "trace",
                                           "moment",
                                           "found",
                                           "ended",
                                           "damaged",
                                           "peak_allocated_bytes",
                                           "peak_reserved_bytes",
                                           "peak_total_bytes",
                                           "settings",
                                           "renamed",
                                           "totals",
                                           "lines"};

// Keys of explain, which tests/e2e/explain_test.py compares with its answers.
const std::set<std::string> kKeysOfExplain = {
    "verdict",  "verdict_text", "clear",    "unknown", "checks",       "id",           "topic",
    "question", "outcome",      "evidence", "action",  "saving_basis", "saving_bytes", "saving_per_iteration"};

// Keys of forecast, which tests/e2e/explain_test.py compares with its answers.
const std::set<std::string> kKeysOfForecast = {"sentence",
                                               "kind",
                                               "risk",
                                               "steps",
                                               "last_step",
                                               "level_bytes",
                                               "limit_low_bytes",
                                               "limit_high_bytes",
                                               "overhead_bytes",
                                               "growing_steps",
                                               "bytes_per_step",
                                               "confidence",
                                               "earliest_steps",
                                               "likely_steps",
                                               "latest_steps",
                                               "step_ns",
                                               "settles_at_bytes"};

// Keys of ranks, which tests/e2e/ranks_command_test.py compares with its answers.
const std::set<std::string> kKeysOfRanks = {"headline",
                                            "doubts",
                                            "verdict",
                                            "program",
                                            "job_id",
                                            "expected_ranks",
                                            "present_ranks",
                                            "missing_ranks",
                                            "damaged_ranks",
                                            "running_ranks",
                                            "not_compared_ranks",
                                            "transient_ranks",
                                            "other_traces",
                                            "measure",
                                            "subject",
                                            "moment",
                                            "first_step",
                                            "last_step",
                                            "min_bytes",
                                            "median_bytes",
                                            "mean_bytes",
                                            "max_bytes",
                                            "skew_bytes",
                                            "max_over_mean",
                                            "max_over_median",
                                            "median_rank",
                                            "model_parts",
                                            "deviations",
                                            "compared_to_rank",
                                            "bytes",
                                            "compared_to_bytes",
                                            "compared_to_moment",
                                            "stragglers",
                                            "first_oom",
                                            "ranks",
                                            "communicator_bytes",
                                            "other_devices",
                                            "max_rank"};

// Keys of live, which tests/e2e/live_view_test.py compares with its answers.
const std::set<std::string> kKeysOfLive = {"place",
                                           "processes",
                                           "state",
                                           "read",
                                           "host",
                                           "now",
                                           "curve",
                                           "unsure",
                                           "device_used_bytes",
                                           "process_used_bytes",
                                           "measure",
                                           "at_program_end",
                                           "lines_bytes",
                                           "site",
                                           "through",
                                           "blocks",
                                           "change_bytes",
                                           "changes_since_ns",
                                           "steps_per_second",
                                           "last_peak_bytes",
                                           "growth_bytes_per_step",
                                           "forecast",
                                           "limit_bytes",
                                           "last_mark",
                                           "problem"};

// Keys of replay, which tests/e2e/replay_test.py looks at, and of import (tests/e2e/import_test.py).
const std::set<std::string> kKeysOfReplayAndImport = {"answer",
                                                      "exact",
                                                      "failed_requests",
                                                      "first_difference",
                                                      "memory_bytes",
                                                      "off_bytes",
                                                      "out_of_memory",
                                                      "recorded",
                                                      "replayed",
                                                      "replayed_anew",
                                                      "requests",
                                                      "requests_done",
                                                      "segments_given_back",
                                                      "served_requests",
                                                      "torch_recorded",
                                                      "what_ifs",
                                                      "format"};

// Keys of tree, table, sizes and stacks, which tests/analyzer/views compares with their answers.
const std::set<std::string> kViewKeys = {"view",
                                         "mode",
                                         "temporary_threshold",
                                         "shown_bytes",
                                         "shown_count",
                                         "stack_count",
                                         "merged_bytes",
                                         "merged_count",
                                         "nodes",
                                         "id",
                                         "parent",
                                         "label",
                                         "self_bytes",
                                         "self_count",
                                         "by",
                                         "rows",
                                         "name",
                                         "labels",
                                         "smallest_bytes",
                                         "median_bytes",
                                         "largest_bytes",
                                         "buckets",
                                         "from_bytes",
                                         "below_bytes",
                                         "sizes",
                                         "lines_by_bytes",
                                         "lines_by_count",
                                         "measure"};

// Keys of flame, which tests/analyzer/commands/flame_test.cc compares with the program's output.
const std::set<std::string> kFlameKeys = {
    "about", "generator", "simulated", "lossless", "facts",   "warnings", "start",        "mode",         "invert",
    "flame", "split",     "depth",     "views",    "label",   "meaning",  "empty",        "counted",      "moments",
    "text",  "rows",      "nodes",     "frames",   "strings", "threads",  "merged_bytes", "merged_stacks"};

// Keys of html, which tests/e2e/html_test.py reads.
const std::set<std::string> kHtmlKeys = {"answers", "born", "category_colors", "changes_in_row", "died_ns", "diff",
                                         "highest", "keys", "layers",          "requested",      "row",     "size",
                                         "traces"};

// Keys of plan, which tests/planner/forecast/forecast_json_test.cc looks at.
const std::set<std::string> kPlanKeys = {"range",     "shared_devices", "tight",      "verdict",    "fits",
                                         "exit_code", "stuck_at",       "seconds",    "confidence", "what_if",
                                         "vary",      "simulated_rank", "skew_bytes", "explain"};

// Keys of symbolize, and of series of files, which the example is not.
const std::set<std::string> kKeysOfSymbolizeAndSeries = {
    "addresses",     "build_id", "events_before",           "files",
    "first_number",  "from",     "goes_on_elsewhere",       "last_number",
    "missing_files", "named",    "objects_not_in_snapshot", "problem",
    "with_lines"};

TEST(Json, EveryKeyIsDocumentedAndTheOtherWayRound) {
  std::set<std::string> emitted = kOtherCommandsKeys;
  emitted.insert(kKeysOfServe.begin(), kKeysOfServe.end());
  emitted.insert(kKeysOfCrossCheck.begin(), kKeysOfCrossCheck.end());
  emitted.insert(kViewKeys.begin(), kViewKeys.end());
  emitted.insert(kFlameKeys.begin(), kFlameKeys.end());
  emitted.insert(kHtmlKeys.begin(), kHtmlKeys.end());
  emitted.insert(kPlanKeys.begin(), kPlanKeys.end());
  emitted.insert(kKeysOfSymbolizeAndSeries.begin(), kKeysOfSymbolizeAndSeries.end());
  emitted.insert(kKeysOfLiveTensors.begin(), kKeysOfLiveTensors.end());
  emitted.insert(kKeysOfCtlAndMarks.begin(), kKeysOfCtlAndMarks.end());
  emitted.insert(kKeysOfDiff.begin(), kKeysOfDiff.end());
  emitted.insert(kKeysOfExplain.begin(), kKeysOfExplain.end());
  emitted.insert(kKeysOfRanks.begin(), kKeysOfRanks.end());
  emitted.insert(kKeysOfForecast.begin(), kKeysOfForecast.end());
  emitted.insert(kKeysOfLive.begin(), kKeysOfLive.end());
  emitted.insert(kKeysOfReplayAndImport.begin(), kKeysOfReplayAndImport.end());
  for (const json& answer : AllAnswers()) CollectKeys(answer, &emitted);
  std::set<std::string> documented = DocumentedKeys();
  EXPECT_EQ(documented.count("schema_version"), 1u);
  emitted.erase("file");  // told in a sentence: a trace's and a frame's
  documented.erase("file");
  EXPECT_THAT(emitted, ::testing::ContainerEq(documented));
}

TEST(Json, EveryAnswerHasTheSchemaVersion) {
  for (const json& answer : AllAnswers()) EXPECT_EQ(answer.at("schema_version"), kJsonSchemaVersion);
}

TEST(ReportJson, HasTheNamesThatScriptsRelyOn) {
  Example example = testing::OomExample();
  const json answer = json::parse(ReportJson(example.input(), 0));
  EXPECT_EQ(answer["program"], "train");
  EXPECT_EQ(answer["complete"], false);
  EXPECT_EQ(answer["losses"]["total"], 0);
  EXPECT_EQ(answer["events"]["torch"], 17900);
  EXPECT_EQ(answer["start_realtime_ns"], 1773500966000000000);
  const json& device = answer["devices"][0];
  EXPECT_EQ(device["device"], 0);
  EXPECT_EQ(device["peak"]["allocated_bytes"], 36ull << 30);
  EXPECT_EQ(device["peak"]["allocated_time_ns"], 9000000000);
  EXPECT_EQ(device["peak"]["total_bytes"], 42ull << 30);
  EXPECT_EQ(device["end"]["reserved_bytes"], 40ull << 30);
  EXPECT_EQ(device["timeline"].size(), 120u);
  EXPECT_EQ(answer["ooms"][0]["requested_bytes"], 2560ull << 20);
}

TEST(PeakJson, ListsWholeStacksInnermostFirst) {
  Example example = testing::TrainingExample();
  const json answer = json::parse(PeakJson(example.input(), &example.analysis.devices[0], Measure::kAllocated, 0));
  EXPECT_EQ(answer["bytes"], 36ull << 30);
  uint64_t sum = 0;
  for (const json& stack : answer["stacks"]) sum += stack["bytes"].get<uint64_t>();
  EXPECT_EQ(sum, 36ull << 30);
  EXPECT_EQ(answer["stacks"][0]["count"], 1210);
  EXPECT_EQ(answer["stacks"][0]["frames"][3]["function"], "Linear.forward");
  EXPECT_EQ(answer["stacks"][0]["frames"][3]["line"], 134);
  EXPECT_EQ(answer["stacks"][0]["site"], "model.py:42 Block.forward");
  EXPECT_EQ(
      json::parse(PeakJson(example.input(), &example.analysis.devices[0], Measure::kAllocated, 2))["stacks"].size(),
      2u);
}

TEST(PeakJson, WritesTheFramesOfAStackOnce) {
  Example example = testing::TrainingExample();
  example.stacks.has_hashes = true;
  const json answer = json::parse(PeakJson(example.input(), &example.analysis.devices[0], Measure::kAllocated, 0));
  const json& plateaus = answer["devices"][0]["plateaus"];
  ASSERT_FALSE(plateaus.empty());
  const json& repeated = plateaus[0]["stacks"][0];
  EXPECT_FALSE(repeated.contains("frames"));
  EXPECT_EQ(repeated["hash"], answer["stacks"][0]["hash"]);
  EXPECT_TRUE(answer["stacks"][0].contains("frames"));
}

TEST(PeakJson, KeepsItsShapeWithoutADevice) {
  Example example = testing::TrainingExample();
  example.analysis.devices.clear();
  const json answer = json::parse(PeakJson(example.input(), nullptr, Measure::kAllocated, 0));
  EXPECT_TRUE(answer["device"].is_null());
  EXPECT_TRUE(answer["stacks"].empty());
}

TEST(Json, HostileNamesStayInsideTheirStrings) {
  Example example = testing::TrainingExample();
  example.analysis.process.program = "\xff\x1b[31m\",\"x\":\"";
  example.analysis.process.command_line = {std::string("a\0b", 3)};
  const std::string text = ReportJson(example.input(), 0);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(json::parse(text)["program"], "\uFFFD\x1b[31m\",\"x\":\"");
}

}  // namespace
}  // namespace gpumem
