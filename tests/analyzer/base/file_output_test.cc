// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "base/file_output.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"

namespace gpumem {
namespace {

namespace fs = std::filesystem;

class ReplaceFileTest : public testing::Test {
 protected:
  ReplaceFileTest() : folder_(absl::StrCat(testing::TempDir(), "gpumem_replace.", getpid())) {
    fs::create_directories(folder_);
  }
  ~ReplaceFileTest() override { fs::remove_all(folder_); }

  static std::string ReadAll(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }
  auto count() const { return std::distance(fs::directory_iterator(folder_), {}); }

  std::string folder_;
};

TEST_F(ReplaceFileTest, TakesThePlaceOfWhatWasThere) {
  const std::string path = folder_ + "/file";
  ASSERT_TRUE(ReplaceFile(path, "first, and longer").ok());
  ASSERT_TRUE(ReplaceFile(path, absl::string_view("a\0b", 3)).ok());
  EXPECT_EQ(ReadAll(path), std::string("a\0b", 3));
  EXPECT_EQ(count(), 1);
}

TEST_F(ReplaceFileTest, ReplacesALinkAndNotWhatItLeadsTo) {
  std::ofstream(folder_ + "/other") << "kept";
  fs::create_symlink("other", folder_ + "/link");
  ASSERT_TRUE(ReplaceFile(folder_ + "/link", "new").ok());
  EXPECT_EQ(ReadAll(folder_ + "/other"), "kept");
  EXPECT_EQ(ReadAll(folder_ + "/link"), "new");
  EXPECT_FALSE(fs::is_symlink(folder_ + "/link"));
}

TEST_F(ReplaceFileTest, LeavesNothingBehindWhereItFails) {
  fs::create_directories(folder_ + "/taken/inside");
  const absl::Status status = ReplaceFile(folder_ + "/taken", "new");  // a folder is not replaced
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("taken"));
  EXPECT_EQ(count(), 1);
  EXPECT_FALSE(ReplaceFile(folder_ + "/missing/file", "new").ok());
}

TEST_F(ReplaceFileTest, IsPrivateUnlessAnotherFileIsNot) {
  const auto mode = [&](const char* name) { return fs::status(folder_ + name).permissions(); };
  ASSERT_TRUE(ReplaceFile(folder_ + "/private", "x").ok());
  EXPECT_EQ(mode("/private"), fs::perms::owner_read | fs::perms::owner_write);
  const fs::perms shared = fs::perms::owner_read | fs::perms::group_read;
  std::ofstream(folder_ + "/like") << "x";
  fs::permissions(folder_ + "/like", shared);
  ASSERT_TRUE(ReplaceFile(folder_ + "/shared", "x", folder_ + "/like").ok());
  EXPECT_EQ(mode("/shared"), shared);
}

TEST_F(ReplaceFileTest, OutputGoesIntoWhatIsNoPlainFile) {
  std::ofstream(folder_ + "/other") << "old and longer";
  fs::create_symlink("other", folder_ + "/link");
  ASSERT_TRUE(WriteOutput(folder_ + "/link", "new").ok());
  EXPECT_TRUE(fs::is_symlink(folder_ + "/link"));
  EXPECT_EQ(ReadAll(folder_ + "/other"), "new");
  EXPECT_TRUE(WriteOutput("/dev/null", "new").ok());
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  ASSERT_TRUE(WriteOutput(folder_ + "/plain", "new").ok());
  EXPECT_EQ(ReadAll(folder_ + "/plain"), "new");
}

TEST(ReadExactlyTest, GoesOnOverPiecesAndSaysWhereThereIsLess) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_TRUE(WriteAll(ends[1], "ab"));
  ASSERT_TRUE(WriteAll(ends[1], "cde"));
  close(ends[1]);
  std::string bytes(4, '?');
  EXPECT_TRUE(ReadExactly(ends[0], bytes.data(), bytes.size()));
  EXPECT_EQ(bytes, "abcd");
  EXPECT_FALSE(ReadExactly(ends[0], bytes.data(), 2));
  close(ends[0]);
}

}  // namespace
}  // namespace gpumem
