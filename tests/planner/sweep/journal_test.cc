// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/sweep/journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace gpumem::plan {
namespace {

namespace fs = std::filesystem;

class JournalTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "journal-test-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  SweepJournal Open() {
    absl::StatusOr<SweepJournal> journal = SweepJournal::Open(folder_ / "results");
    EXPECT_TRUE(journal.ok()) << journal.status();
    return *std::move(journal);
  }

  static SweepRow Row(const std::string& reason) {
    SweepRow row;
    row.values = {{"batch", "8"}};
    row.peak_allocated = 123;
    row.reason = reason;
    return row;
  }

  fs::path folder_;
};

TEST_F(JournalTest, RowsAreThereTheNextTime) {
  {
    SweepJournal journal = Open();
    EXPECT_FALSE(journal.Find("a\nb").has_value());
    ASSERT_TRUE(journal.Keep("a\nb", Row("first")).ok());
    ASSERT_TRUE(journal.Keep("a\nb", Row("second")).ok());
    ASSERT_TRUE(journal.Keep("\"\xff", Row("other")).ok());
  }
  const SweepJournal journal = Open();
  const std::optional<SweepRow> row = journal.Find("a\nb");
  ASSERT_TRUE(row.has_value());
  EXPECT_EQ(row->reason, "second");
  EXPECT_EQ(row->peak_allocated, 123);
  EXPECT_FALSE(journal.Find("a\nc").has_value());
}

TEST_F(JournalTest, DamagedRowsAndThoseOfOthersAreNotThere) {
  SweepJournal journal = Open();
  ASSERT_TRUE(journal.Keep("a", Row("")).ok());
  fs::path file;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_ / "results/rows")) {
    if (entry.path().extension() == ".json") file = entry.path();
  }
  std::ifstream in(file);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  std::string other = text;
  other.replace(other.find("\"a\""), 3, "\"b\"");
  for (const std::string& changed : {std::string(), std::string("{"), std::string("[]"),
                                     std::string("{\"identity\": \"a\"}"), text.substr(0, text.size() / 2), other}) {
    std::ofstream(file) << changed;
    EXPECT_FALSE(journal.Find("a").has_value()) << changed;
  }
  std::ofstream(file) << text;
  EXPECT_TRUE(journal.Find("a").has_value());
}

TEST_F(JournalTest, ARowWithoutItsTraceIsRunAgain) {
  SweepJournal journal = Open();
  SweepRow row = Row("");
  row.trace = "traces/x.gmtrace";
  ASSERT_TRUE(journal.Keep("a", row).ok());
  EXPECT_FALSE(journal.Find("a").has_value());
  std::ofstream(folder_ / "results/traces/x.gmtrace") << "x";
  EXPECT_TRUE(journal.Find("a").has_value());
}

TEST_F(JournalTest, OneSweepAtATime) {
  {
    SweepJournal journal = Open();
    std::ofstream(journal.working_folder() + "/left") << "x";
    const absl::StatusOr<SweepJournal> second = SweepJournal::Open(folder_ / "results");
    EXPECT_TRUE(absl::IsUnavailable(second.status())) << second.status();
    EXPECT_TRUE(fs::exists(journal.working_folder() + "/left")) << "the second one left it alone";
  }
  EXPECT_FALSE(fs::exists(folder_ / "results/running"));
  EXPECT_TRUE(SweepJournal::Open(folder_ / "results").ok());
  std::ofstream(folder_ / "file") << "x";
  EXPECT_TRUE(absl::IsUnavailable(SweepJournal::Open(folder_ / "file").status()));
}

TEST(FileNameTest, TwoConfigurationsNeverShareOne) {
  EXPECT_EQ(FileNameOf({{"batch", "8"}, {"lr", "1e-4"}}), "batch-8_lr-1e-4");
  const std::string slashes = FileNameOf({{"path", "a/b"}}), dashes = FileNameOf({{"path", "a-b"}});
  EXPECT_NE(slashes, dashes);
  EXPECT_EQ(slashes.find('/'), std::string::npos);
  EXPECT_NE(FileNameOf({{"x", std::string(500, 'a')}}), FileNameOf({{"x", std::string(501, 'a')}}));
  EXPECT_LT(FileNameOf({{"x", std::string(500, 'a')}}).size(), 200);
}

}  // namespace
}  // namespace gpumem::plan
