// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/ranks/summary_file.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "answers/ranks/judge.h"
#include "answers/ranks/ranks_report.h"
#include "ranks.h"
#include "render/draw.h"
#include "testing/mutated_json.h"

namespace gpumem {
namespace {

using ::testing::HasSubstr;
using testing::kMiB;
using testing::MakeRank;
using testing::MakeRanks;

RankSummary FullRank() {
  RankSummary rank = MakeRank(3, 8, 100 * kMiB, 3000);
  rank.damage = "cut \"off\"\nthere";
  rank.ancestors = {7, 1};
  rank.other_devices[0] = 5;
  rank.categories[Index(Category::kActivation)] = 77;
  rank.parameters = {{1, 2, 3}, {UINT64_MAX, 5, 6}};
  rank.timeline = {{10, 20}, {30, 40}};
  rank.oom_realtime_ns = 9;
  rank.oom_step = 4;
  rank.ending = RunEnding::kOutOfMemory;
  rank.knows_peak_groups = true;
  rank.roles = {{"pp", 1, 4}};
  rank.peak_groups = {{Category::kActivation, "blocks.3.mlp", "train.py:42 forward", 70, 2}};
  rank.other_peak_bytes = 7;
  for (uint64_t step = 1; step <= 16; ++step) rank.step_ends.push_back({step, step * 100});
  return rank;
}

TEST(SummaryFileTest, WhatIsWrittenIsRead) {
  const RankSummary rank = FullRank();
  FileStamp stamp;
  const std::string line = SummaryLine(rank, {12, 34});
  const absl::StatusOr<RankSummary> read = ParseSummary(line, &stamp);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(stamp, (FileStamp{12, 34}));
  EXPECT_EQ(SummaryLine(*read, stamp), line);
  EXPECT_EQ(read->parameters, rank.parameters);
  EXPECT_EQ(read->steps.windows(), rank.steps.windows());
  EXPECT_EQ(read->job, rank.job);
  EXPECT_EQ(read->damage, rank.damage);
  EXPECT_EQ(read->ending, rank.ending);
  EXPECT_EQ(read->peak_groups, rank.peak_groups);
  EXPECT_EQ(read->roles, rank.roles);
  EXPECT_EQ(read->step_ends, rank.step_ends);
}

TEST(SummaryFileTest, OneOfAnOlderVersionSaysThatItKnowsNoGroups) {
  std::string line = SummaryLine(FullRank(), {});
  line.replace(line.find("\"gpumem_rank_summary\": 2"), 24, "\"gpumem_rank_summary\": 1");
  line.replace(line.find(", \"summary_only\""), std::string::npos, "}");
  const absl::StatusOr<RankSummary> read = ParseSummary(line, nullptr);
  ASSERT_TRUE(read.ok()) << line;
  EXPECT_FALSE(read->knows_peak_groups);
  EXPECT_EQ(read->parameters, FullRank().parameters);
}

TEST(SummaryFileTest, OtherTextIsRefused) {
  for (const char* text : {"", "x", "[]", "{}", "{\"gpumem_rank_summary\": 1}", "{\"gpumem_rank_summary\": 2}", "null"})
    EXPECT_EQ(ParseSummary(text, nullptr).status().code(), absl::StatusCode::kDataLoss) << text;
}

TEST(SummaryFileTest, DamagedLinesDoNoHarm) {
  const std::string line = SummaryLine(FullRank(), {});
  std::mt19937 random(5);
  size_t refused = 0;
  for (int round = 0; round < 300; ++round) {
    std::string harmed = line;
    harmed[random() % harmed.size()] = static_cast<char>(random());
    refused += ParseSummary(harmed, nullptr).ok() ? 0 : 1;
    refused += ParseSummary(line.substr(0, random() % (line.size() - 2)), nullptr).ok() ? 0 : 1;
  }
  EXPECT_GE(refused, 300u) << "each shortened line at least";
}

TEST(SummaryFileTest, AListWhereANumberBelongsIsRefused) {
  for (const auto& [key, rows] : std::vector<std::pair<std::string, std::string>>{{"parameters", "[[-1,2,3]]"},
                                                                                  {"steps", "[[1.5,2,3]]"},
                                                                                  {"ancestors", "[[\"x\"]]"},
                                                                                  {"categories", "[[\"x\"]]"},
                                                                                  {"timeline", "[[]]"},
                                                                                  {"step_ends", "[[[1],2]]"}}) {
    nlohmann::json summary = nlohmann::json::parse(SummaryLine(FullRank(), {}));
    summary[key] = nlohmann::json::parse(rows);
    const absl::StatusOr<RankSummary> read = ParseSummary(summary.dump(), nullptr);
    EXPECT_EQ(read.status().code(), absl::StatusCode::kDataLoss) << key;
    EXPECT_THAT(read.status().message(), HasSubstr(key));
  }
}

// What is taken can be compared and printed: no number in it is too large for sums and differences.
TEST(SummaryFileTest, WhateverIsInAPlaceDoesNoHarm) {
  std::vector<RankSummary> others = MakeRanks(3, 100 * kMiB);
  size_t refused = 0;
  nlohmann::json summary = nlohmann::json::parse(SummaryLine(FullRank(), {}));
  for (const char* const list : {"steps", "step_ends", "categories"})
    summary[list] = {summary[list][0], summary[list][1]};  // one is as another
  testing::EachMutation(summary.dump(), [&](const std::string& line) {
    const absl::StatusOr<RankSummary> read = ParseSummary(line, nullptr);
    refused += read.ok() ? 0 : 1;
    if (!read.ok()) return;
    std::vector<RankSummary> ranks = others;
    ranks.push_back(*read);
    const Job job = SortIntoJob(std::move(ranks));
    const RanksVerdict verdict = JudgeRanks(job, {});
    EXPECT_FALSE(ToJson(RanksAnswer({job, verdict}, {})).empty());
  });
  EXPECT_GT(refused, 1000u);
}

TEST(SummaryFileTest, AWindowsWidthThatIsNoneIsRefused) {
  std::string line = SummaryLine(FullRank(), {});
  const size_t at = line.find("\"step_width\": ");
  ASSERT_NE(at, std::string::npos);
  line[at + 14] = '0';
  line[at + 15] = ',';
  EXPECT_FALSE(ParseSummary(line, nullptr).ok());
}

class SummaryFolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "gpumemshim-summary-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string folder_;
};

TEST_F(SummaryFolderTest, IsUsedWhileTheTraceIsTheSame) {
  RankSummary rank = FullRank();
  rank.file = folder_ + "/a.gmtrace";
  std::ofstream(rank.file) << "trace";
  ASSERT_TRUE(WriteSummary(rank, StampOf(rank.file)).ok());
  const std::optional<RankSummary> read = FreshSummary(rank.file);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->rank, 3);
  std::ofstream(rank.file, std::ios::app) << " that goes on";
  EXPECT_FALSE(FreshSummary(rank.file).has_value());
}

TEST_F(SummaryFolderTest, OfAProcessThatWentOnIsNotUsed) {
  RankSummary rank = FullRank();
  rank.file = folder_ + "/a.gmtrace";
  std::ofstream(rank.file) << "trace";
  rank.ending = RunEnding::kRunning;
  ASSERT_TRUE(WriteSummary(rank, StampOf(rank.file)).ok());
  EXPECT_FALSE(FreshSummary(rank.file).has_value());
}

TEST_F(SummaryFolderTest, AddsToWhatIsKnownOfTheSameProcess) {
  const std::string path = folder_ + "/a.gmtrace.summary";
  RankSummary rank = FullRank();
  ASSERT_TRUE(AddToSummary(rank, path).ok());
  const uint64_t peak = rank.peak_allocated;
  rank.peak_allocated = 1;
  ASSERT_TRUE(AddToSummary(rank, path).ok());
  EXPECT_EQ(ReadSummaries(path)->ranks.front().peak_allocated, peak);
  EXPECT_TRUE(ReadSummaries(path)->ranks.front().summary_only);
  EXPECT_EQ(ReadSummaries(path)->ranks.front().file, path);
  rank.start_ticks = 99;  // another process that is given the same name
  EXPECT_EQ(*AddToSummary(rank, path), folder_ + "/a.1.gmtrace.summary");
  EXPECT_EQ(*AddToSummary(rank, path), folder_ + "/a.1.gmtrace.summary");
  EXPECT_EQ(ReadSummaries(path)->ranks.front().peak_allocated, peak);
}

TEST(SummaryPathTest, OfASeriesThereIsOne) {
  EXPECT_EQ(SummaryPathOf("x/run.gmtrace"), "x/run.gmtrace.summary");
  EXPECT_EQ(SummaryPathOf("x/run.part12.gmtrace"), "x/run.gmtrace.summary");
  EXPECT_EQ(SummaryPathOf("snapshot_rank3.pickle"), "snapshot_rank3.pickle.summary");
}

TEST_F(SummaryFolderTest, FilesPutTogetherAreOne) {
  const std::string path = folder_ + "/all.summary";
  std::ofstream file(path);
  for (const RankSummary& rank : MakeRanks(20, 100 * kMiB)) file << SummaryLine(rank, {});
  file.close();
  const absl::StatusOr<KeptSummaries> kept = ReadSummaries(path);
  ASSERT_TRUE(kept.ok());
  EXPECT_EQ(SortIntoJob(kept->ranks).ranks.size(), 20u);
  EXPECT_TRUE(kept->bad.empty());
}

TEST_F(SummaryFolderTest, ALineThatIsNoneIsNamedAndTheOthersAreTaken) {
  const std::string path = folder_ + "/all.summary";
  std::ofstream file(path);
  const std::vector<RankSummary> all = MakeRanks(3, 100 * kMiB);
  file << SummaryLine(all[0], {}) << "nonsense\n" << SummaryLine(all[1], {}) << SummaryLine(all[2], {});
  file.close();
  const absl::StatusOr<KeptSummaries> kept = ReadSummaries(path);
  ASSERT_TRUE(kept.ok());
  EXPECT_EQ(kept->ranks.size(), 3u);
  ASSERT_EQ(kept->bad.size(), 1u);
  EXPECT_EQ(kept->bad[0].number, 2u);
  EXPECT_THAT(kept->bad[0].problem, HasSubstr("not JSON"));
}

TEST_F(SummaryFolderTest, APipeBesideATraceIsNotOpened) {
  const std::string trace = folder_ + "/a.gmtrace";
  std::ofstream(trace) << "trace";
  ASSERT_EQ(mkfifo(SummaryPathOf(trace).c_str(), 0600), 0);
  EXPECT_FALSE(FreshSummary(trace).has_value());
  EXPECT_FALSE(ReadSummaries(SummaryPathOf(trace)).ok());
}

}  // namespace
}  // namespace gpumem
