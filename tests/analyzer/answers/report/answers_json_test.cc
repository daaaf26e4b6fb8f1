// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <gmock/gmock.h>

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "absl/strings/str_split.h"
#include "answers/compare/check.h"
#include "answers/compare/diff_answer.h"
#include "answers/compare/run_table.h"
#include "answers/explain/explain.h"
#include "answers/outlook/outlook.h"
#include "answers/parts/attribution_answer.h"
#include "answers/ranks/ranks_report.h"
#include "answers/report/fixture.h"
#include "answers/report/process_list.h"
#include "answers/report/sections.h"
#include "answers/report/stack_rows.h"
#include "answers/report/trace_answer.h"
#include "answers/training/training.h"
#include "keys_of_commands.h"
#include "render/draw.h"
#include "testing/key_tables.h"

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

// Names in back quotes in the first column of the tables of docs/json.md, but of those that another test writes.
std::set<std::string> DocumentedKeys() {
  std::ifstream file(GPUMEM_DOCS_FOLDER "/json.md");
  std::set<std::string> keys;
  bool is_of_another = false;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("<!-- ", 0) == 0) is_of_another = line.find("_test.cc)") != std::string::npos;
    if (is_of_another || line.rfind("| `", 0) != 0) continue;
    const std::string column = line.substr(0, line.find(" | "));
    for (size_t at = column.find('`'); at != std::string::npos; at = column.find('`', at + 1)) {
      const size_t end = column.find('`', at + 1);
      keys.insert(column.substr(at + 1, end - at - 1));
      at = end;
    }
  }
  return keys;
}

std::string PeakJson(const ReportInput& input, const DeviceAnalysis* device, Measure measure, size_t top) {
  return ToJson(PeakAnswer(input, device, measure, {}, top));
}

std::vector<json> AllAnswers() {
  TextOptions all;
  all.top = 0;
  Example example = testing::OomExample();
  testing::AddAttribution(&example);
  testing::AddLeak(&example, uint64_t{1} << 30);
  example.analysis.cupti.asked = true;
  const ReportInput input = example.input();
  const DeviceAnalysis* device = &example.analysis.devices[0];
  std::vector<json> answers;
  for (const std::string& text :
       {testing::ReportJson(input), ToJson(TimelineAnswer(input)), ToJson(LeaksAnswer(input, {}, 0)),
        ToJson(OomAnswer(input, nullptr, {}, 0)), ToJson(FragmentationAnswer(input, nullptr, {}, 0)),
        PeakJson(input, device, Measure::kAllocated, 0), ToJson(InfoAnswer(input, {})),
        ToJson(AtAnswer("peak", input, all)), ToJson(StepsAnswer(input, 0)), ToJson(ModulesAnswer(input, 0)),
        ToJson(ModelAnswer(input, example.objects, 0))}) {
    answers.push_back(json::parse(text));
  }
  WhatIfAnswer what_if;
  what_if.why_not = "no Python with PyTorch found";
  answers.push_back(json::parse(ToJson(FragmentationAnswer(input, &what_if, {}, 0))));
  EXPECT_EQ(answers.back()["what_if"]["replayed"], false);
  what_if.why_not.clear();
  what_if.is_exact = true;
  what_if.other = {"expandable_segments:True", 5 << 20, 3 << 20};
  answers.push_back(json::parse(ToJson(OomAnswer(input, &what_if, {}, 0))));
  EXPECT_EQ(answers.back()["what_if"]["other"]["fit_bytes"], 3 << 20);
  ListedProcess listed = Listed(example.analysis);
  listed.process.ancestors.push_back({4200, 1, "torchrun"});
  answers.push_back(json::parse(ToJson(ProcessListAnswer({listed}, "runs"))));
  return answers;
}

using Documents = std::vector<std::pair<std::string, Document>>;

// What is in some of its objects, without their own keys.
Document MembersOf(const Document& document, const std::set<std::string>& keys) {
  Document members;
  for (const Item& item : document.items()) {
    if (keys.count(item.key) != 0) members.Field(item.key, item.datum, "");
  }
  return members;
}

// Those of one trace or of several, by the names of their tables in docs/json.md.
void ForDocuments(const std::function<void(const Documents&, const Documents&)>& use) {
  Example example = testing::OomExample();
  example.analysis.cupti.asked = true;
  example.analysis.series.files = 2;
  testing::AddAttribution(&example);
  testing::AddLeak(&example, uint64_t{1} << 30);
  const ReportInput input = example.input();
  const std::vector<RunFacts> runs;
  const Diff diff;
  const std::vector<CheckLine> lines;
  const Job job;
  const RanksVerdict verdict;
  const DeviceAnalysis& device = example.analysis.devices[0];
  const WhatIfAnswer what_if;
  Document devices, place, point, stacks, replayed, ooms, breakdown;
  AddBreakdownFields(device, input, &breakdown);
  breakdown.Field("sampling", SamplingDatum(input), "");
  AddOomLists(input, nullptr, 0, &ooms);
  point.Field("point", PointDatum(device.fragmentation.at_peak, input), "");
  replayed.Field("what_if", WhatIfDatum(&what_if), "");
  AddDevices(
      input, [](const DeviceAnalysis&, Document*) {}, &devices);
  place.Field("where", PlaceDatum(0, input), "object:");
  AddStacks("stacks", device.at_peak_total.stacks, 0, input, &stacks);
  const Document head = HeadFields("report", input);
  const std::vector<ListedProcess> listed = {Listed(example.analysis)};
  use({{"steps", StepsAnswer(input, 0)},
       {"stages", StagesAnswer(input, 0)},
       {"modules", ModulesAnswer(input, 0)},
       {"model", ModelAnswer(input, example.objects, 0)},
       {"report", ReportAnswer(input, {}, false, 0)},
       {"peak", PeakAnswer(input, &device, Measure::kAllocated, {}, 0)},
       {"info", InfoAnswer(input, {})},
       {"explain", ExplanationAnswer(Explanation(), false)},
       {"forecast", OutlookAnswer(Outlook())},
       {"compare", CompareAnswer(runs)},
       {"diff", DiffAnswer(diff, 0, false)},
       {"check", ChecksAnswer(lines)},
       {"a folder", ProcessListAnswer(listed, "runs")},
       {"ranks", RanksAnswer({job, verdict}, {0, true})}},
      {{"process", MembersOf(head, {"process"})},
       {"recording", MembersOf(head, {"recording"})},
       {"events and losses", MembersOf(head, {"events", "losses"})},
       {"cupti", MembersOf(head, {"cupti"})},
       {"series", MembersOf(head, {"series"})},
       {"every answer", head},
       {"devices", devices},
       {"a place", place},
       {"a point", point},
       {"a list of stacks", stacks},
       {"a live set", LiveSetFields(device.leaks.at_end_torch, 0, input)},
       {"at", AtAnswer("peak", input, {})},
       {"fragmentation", FragmentationAnswer(input, nullptr, {}, 0)},
       {"what_if", replayed},
       {"ooms", ooms},
       {"breakdown", breakdown},
       {"timeline", TimelineAnswer(input)},
       {"leaks", LeaksAnswer(input, {}, 0)}});
}

TEST(AnswersJson, TheTablesOfDocumentsAreWhatTheyDeclare) { ForDocuments(testing::ExpectKeyTables); }

// Names in back quotes of the first column.
void CollectDeclaredKeys(const std::string& rows, std::set<std::string>* keys) {
  for (const absl::string_view row : absl::StrSplit(rows, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> parts = absl::StrSplit(row.substr(0, row.find(" | ")), '`');
    for (size_t i = 1; i < parts.size(); i += 2) keys->insert(parts[i]);
  }
}

TEST(Json, EveryKeyIsDocumentedAndTheOtherWayRound) {
  std::set<std::string> emitted = testing::kOtherCommandsKeys;
  emitted.insert(testing::kKeysOfServe.begin(), testing::kKeysOfServe.end());
  emitted.insert(testing::kKeysOfBundle.begin(), testing::kKeysOfBundle.end());
  emitted.insert(testing::kKeysOfCrossCheck.begin(), testing::kKeysOfCrossCheck.end());
  emitted.insert(testing::kViewKeys.begin(), testing::kViewKeys.end());
  emitted.insert(testing::kFlameKeys.begin(), testing::kFlameKeys.end());
  emitted.insert(testing::kHtmlKeys.begin(), testing::kHtmlKeys.end());
  emitted.insert(testing::kKeysOfSymbolizeAndSeries.begin(), testing::kKeysOfSymbolizeAndSeries.end());
  emitted.insert(testing::kKeysOfLiveTensors.begin(), testing::kKeysOfLiveTensors.end());
  emitted.insert(testing::kKeysOfCtlAndMarks.begin(), testing::kKeysOfCtlAndMarks.end());
  emitted.insert(testing::kKeysOfDiff.begin(), testing::kKeysOfDiff.end());
  emitted.insert(testing::kKeysOfForecast.begin(), testing::kKeysOfForecast.end());
  emitted.insert(testing::kKeysOfImport.begin(), testing::kKeysOfImport.end());
  for (const json& answer : AllAnswers()) CollectKeys(answer, &emitted);
  ForDocuments([&](const Documents& documents, const Documents&) {
    for (const auto& [name, document] : documents) CollectDeclaredKeys(KeyRows(document), &emitted);
  });
  std::set<std::string> documented = DocumentedKeys();
  EXPECT_EQ(documented.count("schema_version"), 1u);
  for (const char* const told_in_a_sentence : {"file", "what_if"}) {
    emitted.erase(told_in_a_sentence);
    documented.erase(told_in_a_sentence);
  }
  EXPECT_THAT(emitted, ::testing::ContainerEq(documented));
}

TEST(Json, EveryAnswerHasTheSchemaVersion) {
  for (const json& answer : AllAnswers()) EXPECT_EQ(answer.at("schema_version"), kJsonSchemaVersion);
}

TEST(ReportJson, HasTheNamesThatScriptsRelyOn) {
  Example example = testing::OomExample();
  const json answer = json::parse(testing::ReportJson(example.input()));
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
  const std::string text = testing::ReportJson(example.input());
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(json::parse(text)["program"], "\uFFFD\x1b[31m\",\"x\":\"");
}

}  // namespace
}  // namespace gpumem
