// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/ranks/rank_files.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace gpumem {
namespace {

using ::testing::ElementsAre;

class RankFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "gpumemshim-rank-files-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void Make(const std::string& name, const std::string& bytes = "x") {
    std::filesystem::create_directories(std::filesystem::path(folder_ + "/" + name).parent_path());
    std::ofstream(folder_ + "/" + name) << bytes;
  }
  // As a memory snapshot of PyTorch begins.
  void MakeSnapshot(const std::string& name) { Make(name, "\x80\x04}\x94(\x8c\x08segments\x94]\x94u."); }
  // Names inside the folder.
  std::vector<std::string> Find(const std::string& argument) {
    const auto files = RankFiles({folder_ + argument});
    EXPECT_TRUE(files.ok()) << files.status();
    std::vector<std::string> names;
    for (const std::string& file : *files) names.push_back(file.substr(folder_.size() + 1));
    return names;
  }
  std::string folder_;
};

TEST_F(RankFilesTest, TracesOfAFolderAndNothingElse) {
  Make("b.gmtrace");
  Make("a.gmtrace");
  Make("a.gmtrace.summary");
  Make("node0/c.gmtrace");
  EXPECT_THAT(Find(""), ElementsAre("a.gmtrace", "b.gmtrace"));
}

TEST_F(RankFilesTest, OneFileOfEachSeries) {
  for (const char* name :
       {"t.r0.gmtrace", "t.r0.part2.gmtrace", "t.r1.part7.gmtrace", "t.r1.part10.gmtrace", "my.partial.gmtrace"})
    Make(name);
  EXPECT_THAT(Find(""), ElementsAre("my.partial.gmtrace", "t.r0.gmtrace", "t.r1.part10.gmtrace"));
}

TEST_F(RankFilesTest, FoldersOfNodesAndSummariesAlone) {
  Make("node0/a.gmtrace");
  Make("node1/b.gmtrace");
  EXPECT_THAT(Find(""), ElementsAre("node0/a.gmtrace", "node1/b.gmtrace"));
  Make("only/a.gmtrace.summary");
  EXPECT_THAT(Find("/only"), ElementsAre("only/a.gmtrace.summary"));
}

TEST_F(RankFilesTest, FilesOfOthersWhereThereIsNoTrace) {
  MakeSnapshot("rank0_memory_snapshot.pickle");
  MakeSnapshot("rank1_memory_snapshot.pickle");
  Make("config.json", "{\"batch\": 3}");
  Make("tokens.pkl", "\x80\x04]\x94.");
  Make("notes.txt");
  EXPECT_THAT(Find(""), ElementsAre("rank0_memory_snapshot.pickle", "rank1_memory_snapshot.pickle"));
  Make("a.gmtrace");
  EXPECT_THAT(Find(""), ElementsAre("a.gmtrace"));
}

TEST_F(RankFilesTest, OfIterationsTheLast) {
  for (const char* folder : {"iteration_9", "iteration_10", "iteration_100"}) {
    for (const char* rank : {"rank0", "rank1"}) MakeSnapshot(absl::StrCat(folder, "/", rank, "/snapshot.pickle"));
  }
  EXPECT_THAT(Find(""), ElementsAre("iteration_100/rank0/snapshot.pickle", "iteration_100/rank1/snapshot.pickle"));
  EXPECT_THAT(Find("/iteration_9"),
              ElementsAre("iteration_9/rank0/snapshot.pickle", "iteration_9/rank1/snapshot.pickle"));
}

TEST_F(RankFilesTest, Patterns) {
  Make("a.r0.gmtrace");
  Make("a.r1.gmtrace");
  Make("b.r0.gmtrace");
  EXPECT_THAT(Find("/a.*.gmtrace"), ElementsAre("a.r0.gmtrace", "a.r1.gmtrace"));
  EXPECT_THAT(Find("/a.r[1-9].gmtrace"), ElementsAre("a.r1.gmtrace"));
}

TEST_F(RankFilesTest, SummariesOfRanksWithoutATraceAreThere) {
  for (const char* name : {"a.r0.gmtrace", "a.r0.gmtrace.summary", "a.r1.gmtrace.summary", "b.part2.gmtrace",
                           "b.part3.gmtrace", "b.gmtrace.summary", "all.summary"})
    Make(name);
  EXPECT_THAT(Find(""), ElementsAre("a.r0.gmtrace", "a.r1.gmtrace.summary", "b.part2.gmtrace"));
}

TEST_F(RankFilesTest, NothingIsAnErrorThatSaysWhatToDo) {
  EXPECT_TRUE(absl::IsNotFound(RankFiles({folder_}).status()));
  EXPECT_TRUE(absl::IsNotFound(RankFiles({folder_ + "/no*.gmtrace"}).status()));
  EXPECT_THAT(std::string(RankFiles({folder_}).status().message()), ::testing::HasSubstr("torchrun"));
}

}  // namespace
}  // namespace gpumem
