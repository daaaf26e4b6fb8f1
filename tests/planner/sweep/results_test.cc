// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/sweep/results.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "example_rows.h"
#include "planner/sweep/sweep_document.h"
#include "render/draw.h"
#include "testing/key_tables.h"

namespace gpumem::plan {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AnswerOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kGiB;
using ::testing::Not;

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// A small reader of RFC 4180, written from the document: the test must not trust the writer.
std::vector<std::vector<std::string>> ReadCsv(const std::string& text) {
  std::vector<std::vector<std::string>> records{{""}};
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    std::string& field = records.back().back();
    if (text[i] == '"' && quoted && i + 1 < text.size() && text[i + 1] == '"') {
      field += text[++i];
    } else if (text[i] == '"') {
      quoted = !quoted;
    } else if (text[i] == ',' && !quoted) {
      records.back().emplace_back();
    } else if (text.compare(i, 2, "\r\n") == 0 && !quoted) {
      ++i;
      records.push_back({""});
    } else {
      field += text[i];
    }
  }
  records.pop_back();  // the file ends with a line's end
  return records;
}

TEST(SummaryCsvTest, OneRecordAConfiguration) {
  std::vector<SweepRow> rows = testing::PrivateRows();
  rows[7].reason = "exit code 1: \"x\", y\nsecond line";
  const auto records = ReadCsv(SummaryCsv(AnswerOf(rows)));
  ASSERT_EQ(records.size(), rows.size() + 1);
  const std::vector<std::string>& heading = records[0];
  for (const auto& record : records) EXPECT_EQ(record.size(), heading.size());
  const auto at = [&](size_t record, const std::string& column) {
    const auto found = std::find(heading.begin(), heading.end(), column);
    EXPECT_NE(found, heading.end()) << column;
    return records[record].at(static_cast<size_t>(found - heading.begin()));
  };
  EXPECT_EQ(at(1, "configuration"), "1");
  EXPECT_EQ(at(1, "lora_rank"), "8");
  EXPECT_EQ(at(1, "state"), "fits");
  EXPECT_EQ(at(1, "peak_allocated_bytes"), absl::StrCat(rows[0].peak_allocated));
  EXPECT_EQ(at(1, "parameters_bytes"), absl::StrCat(rows[0].categories["parameter"]));
  EXPECT_EQ(at(1, "per_sample_gradients_bytes"), absl::StrCat(rows[0].parts["per_sample"]));
  EXPECT_EQ(at(1, "simulated"), "true");
  EXPECT_EQ(at(8, "state"), "failed");
  EXPECT_EQ(at(8, "fits"), "false");
  EXPECT_EQ(at(8, "peak_allocated_bytes"), "");  // not known is not 0
  EXPECT_EQ(at(8, "parameters_bytes"), "");
  EXPECT_EQ(at(8, "reason"), "exit code 1: \"x\", y\\nsecond line");
}

TEST(SummaryCsvTest, AnAxisWithTheNameOfAColumnKeepsApart) {
  const auto records = ReadCsv(SummaryCsv(AnswerOf({testing::RowOf(1, {{"seconds", "9"}, {"a,b", "x\"y"}}, kGiB)})));
  EXPECT_THAT(records[0], Contains("axis_seconds"));
  EXPECT_THAT(records[0], Contains("seconds").Times(1));
  EXPECT_EQ(records[0][2], "a,b");
  EXPECT_EQ(records[1][2], "x\"y");
  EXPECT_EQ(ReadCsv(SummaryCsv(AnswerOf({}))).size(), 1u);
}

json Parsed(const Document& document) { return json::parse(ToJson(document)); }

TEST(SweepJsonTest, SaysWhatRanAndWhatCameOut) {
  SweepAnswer answer = AnswerOf(testing::GptRows());
  answer.notes = {"a note"};
  const json reported = Parsed(SweepDocument(answer));
  EXPECT_EQ(reported["command"], "sweep");
  EXPECT_EQ(reported["simulated"], true);
  EXPECT_EQ(reported["mode"], "simulated");
  EXPECT_EQ(reported["device"], "RTX4090");
  EXPECT_EQ(reported["device_bytes"], 24 * kGiB);
  EXPECT_EQ(reported["largest_that_fits"], 18);
  EXPECT_EQ(reported["least_memory"], 1);
  EXPECT_EQ(reported["scaling"][0]["axis"], "seq_len");
  EXPECT_EQ(reported["scaling"][0]["peak_allocated"]["model"], "quadratic");
  EXPECT_EQ(reported["scaling"][1]["peak_allocated"]["model"], "linear");
  ASSERT_EQ(reported["configurations"].size(), 20u);
  EXPECT_EQ(reported["configurations"][19]["values"], (json{{"seq_len", 4096}, {"batch_size", 8}}));
  EXPECT_EQ(reported["configurations"][19]["state"], "out_of_memory");
  EXPECT_EQ(reported["configurations"][19]["peak_process_bytes"], answer.rows[19].peak_process);
  EXPECT_EQ(reported["configurations"][0]["stages"][0]["name"], "model_load");
  EXPECT_EQ(reported["notes"], json{"a note"});
}

TEST(SweepJsonTest, WithoutAnswers) {
  SweepRow failed;
  failed.state = RowState::kFailed;
  failed.values = {{"x", "007"}, {"x", "again"}, {"\xff", "1"}};
  const json reported = Parsed(SweepDocument(AnswerOf({failed})));
  EXPECT_TRUE(reported["largest_that_fits"].is_null());
  EXPECT_TRUE(reported["configurations"][0]["peak_allocated_bytes"].is_null());
  EXPECT_EQ(reported["configurations"][0]["values"]["x"], "007");  // no number: its zeros would be lost
  EXPECT_EQ(Parsed(SweepDocument(AnswerOf({})))["configurations"], json::array());
}

TEST(DetailedJsonTest, HasEveryDimension) {
  const std::vector<SweepRow> rows = testing::PrivateRows();
  const json reported = Parsed(DetailedDocument(AnswerOf(rows)));
  const json& first = reported["configurations"][0];
  EXPECT_EQ(first["memory_types"]["parameters"], rows[0].categories.at("parameter"));
  EXPECT_EQ(first["memory_types"]["per_sample_gradients"], rows[0].parts.at("per_sample"));
  EXPECT_EQ(first["memory_types"]["gradients"].get<uint64_t>() + rows[0].parts.at("per_sample"),
            rows[0].categories.at("gradient"));
  EXPECT_EQ(first["memory_types"]["others"]["input"], rows[0].categories.at("input"));
  EXPECT_EQ(first["components"][1]["name"], "attention");
  EXPECT_EQ(first["components"][1]["operations"]["forward"], rows[0].components[1].allocated.at("forward"));
  EXPECT_GT(first["operations"]["backward"], first["operations"]["optimizer"]);
  EXPECT_EQ(first["timeline"]["allocated_bytes"].size(), rows[0].timeline.size());
  EXPECT_EQ(first["timeline"]["seconds"].size(), rows[0].timeline.size());
  EXPECT_EQ(first["stages"][3]["growth_bytes"], rows[0].stages[3].growth_bytes);
  EXPECT_EQ(first["peak_allocated_bytes"], rows[0].peak_allocated);
  EXPECT_TRUE(reported["configurations"][7]["peak_allocated_bytes"].is_null());
}

// Objects whose keys are data.
bool HasDataForKeys(const std::string& key) {
  static const std::set<std::string> kKeys = {
      "values", "fixed", "others", "categories", "parts", "tensors", "by_category_at_peak", "allocated_by_stage"};
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

// Names in back quotes in the first column of the tables between two headings.
std::set<std::string> Documented(const std::string& from, const std::string& to) {
  const std::string page = ReadAll(GPUMEM_DOCS_FOLDER "/commands/sweep.md");
  std::set<std::string> names;
  const size_t begin = page.find(from), end = page.find(to, begin);
  for (const absl::string_view line : absl::StrSplit(page.substr(begin, end - begin), '\n')) {
    if (line.substr(0, 3) != "| `") continue;
    const std::vector<std::string> words = absl::StrSplit(line.substr(0, line.find(" | ", 1)), '`');
    for (size_t i = 1; i < words.size(); i += 2) names.insert(words[i]);
  }
  return names;
}

TEST(SweepPageOfTheManualTest, HasEveryKeyAndColumn) {
  const SweepAnswer answer = AnswerOf(testing::PrivateRows());
  const Document sweep = SweepDocument(answer);
  gpumem::testing::ExpectKeyTablesOf("commands/sweep.md", {{"sweep", sweep}}, {});
  gpumem::testing::ExpectKeyTablesOf("commands/sweep.md", {{"detailed", DetailedDocument(answer)}}, {{"", sweep}});
  std::set<std::string> keys;
  CollectKeys(Parsed(SweepDocument(answer)), &keys);
  CollectKeys(Parsed(DetailedDocument(answer)), &keys);
  EXPECT_EQ(Documented("### JSON files", "### The CSV file"), keys);
  std::set<std::string> columns;
  const auto records = ReadCsv(SummaryCsv(AnswerOf({SweepRow()})));
  for (const std::string& column : records[0]) columns.insert(column);
  EXPECT_EQ(Documented("### The CSV file", "### Pictures"), columns);
}

class ResultsTest : public ::testing::Test {
 protected:
  ResultsTest() : folder_(absl::StrCat(::testing::TempDir(), "gpumemshim_results.", getpid(), "/deep/results")) {}
  ~ResultsTest() override { fs::remove_all(fs::path(folder_).parent_path().parent_path()); }

  std::set<std::string> Files() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) names.insert(entry.path().filename().string());
    return names;
  }

  std::string folder_;
};

TEST_F(ResultsTest, WritesTheFilesThatPeopleKnow) {
  std::vector<SweepRow> rows = testing::GptRows();
  rows.resize(2);
  const absl::StatusOr<WrittenResults> written = WriteResults(AnswerOf(rows), folder_);
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_THAT(
      written->files,
      ElementsAre("memory_profile_results.json", "memory_profile_summary.csv", "detailed_memory_results.json",
                  "memory_analysis_overview.png", "memory_heatmap.png", "detailed_memory_analysis.png",
                  "operation_level_breakdown.png", "memory_timeline_config_1.png", "memory_timeline_config_2.png"));
  EXPECT_THAT(written->notes, IsEmpty());
  EXPECT_EQ(Files(), (std::set<std::string>(written->files.begin(), written->files.end())));
  const json reported = json::parse(ReadAll(folder_ + "/memory_profile_results.json"));
  EXPECT_EQ(reported["files"].get<std::vector<std::string>>(), written->files);
  EXPECT_EQ(reported["directory"], folder_);
  EXPECT_THAT(ReadAll(folder_ + "/memory_heatmap.png"), ::testing::StartsWith("\x89PNG"));
}

TEST_F(ResultsTest, RemovesItsOwnStalePicturesAlone) {
  std::vector<SweepRow> rows = testing::GptRows();
  rows.resize(3);
  ASSERT_TRUE(WriteResults(AnswerOf(rows), folder_).ok());
  for (const char* name : {"memory_timeline_config_mine.png", "memory_timeline_config_3.png.bak", "notes.txt"})
    std::ofstream(folder_ + "/" + name) << "kept";
  rows.resize(1);
  ASSERT_TRUE(WriteResults(AnswerOf(rows), folder_).ok());
  const std::set<std::string> files = Files();
  EXPECT_THAT(files, Contains("memory_timeline_config_1.png"));
  EXPECT_THAT(files, Not(Contains("memory_timeline_config_3.png")));
  for (const char* name : {"memory_timeline_config_mine.png", "memory_timeline_config_3.png.bak", "notes.txt"})
    EXPECT_THAT(files, Contains(name));
}

TEST_F(ResultsTest, ConfigurationsWithoutATimelineAreTold) {
  const absl::StatusOr<WrittenResults> written = WriteResults(AnswerOf({SweepRow()}), folder_);
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_THAT(written->notes, Contains(HasSubstr("1 configuration has no timeline")));
}

TEST_F(ResultsTest, SaysWhereItCannotWrite) {
  fs::create_directories(fs::path(folder_).parent_path());
  std::ofstream(folder_) << "a file";
  EXPECT_THAT(std::string(WriteResults(AnswerOf({}), folder_).status().message()), HasSubstr("results"));
}

}  // namespace
}  // namespace gpumem::plan
