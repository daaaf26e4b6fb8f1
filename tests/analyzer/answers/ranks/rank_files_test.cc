// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/ranks/rank_files.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/status/status.h"

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

  void Make(const std::string& name) {
    std::filesystem::create_directories(std::filesystem::path(folder_ + "/" + name).parent_path());
    std::ofstream(folder_ + "/" + name) << "x";
  }
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
