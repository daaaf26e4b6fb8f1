// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "live/serve/access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace gpumem {
namespace {

using ::testing::HasSubstr;

class TokenFileTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove(path_); }
  void TearDown() override { std::filesystem::remove(path_); }
  void Write(const std::string& text) const { std::ofstream(path_) << text; }

  const std::string path_ = ::testing::TempDir() + "/gpumemshim_token_" + std::to_string(getpid());
};

TEST(NewTokenTest, IsNeverTheSame) {
  const std::string token = NewToken();
  EXPECT_EQ(token.size(), 32u);
  EXPECT_EQ(token.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(NewToken(), token);
}

TEST_F(TokenFileTest, IsMadeForItsOwnerAlone) {
  const absl::StatusOr<std::string> token = TokenOfFile(path_);
  ASSERT_TRUE(token.ok()) << token.status();
  struct stat about {};
  ASSERT_EQ(stat(path_.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600u);
  EXPECT_EQ(*TokenOfFile(path_), *token) << "and read again";
}

TEST_F(TokenFileTest, MayBeTheUsersOwn) {
  Write("a-token_of.my-own\nmore\n");
  EXPECT_EQ(*TokenOfFile(path_), "a-token_of.my-own");
}

TEST_F(TokenFileTest, RefusesWhatCanBeGuessedOrDoesNotFitAnAddress) {
  for (const char* text : {"", "\n", "short", "with space in the middle of it", "&token=abcdefghijklmnop"}) {
    Write(text);
    const absl::StatusOr<std::string> token = TokenOfFile(path_);
    ASSERT_FALSE(token.ok()) << text;
    EXPECT_THAT(std::string(token.status().message()), HasSubstr("16 to 256 letters"));
  }
}

TEST_F(TokenFileTest, SaysWhyItCannotBeMade) {
  const absl::StatusOr<std::string> token = TokenOfFile("/no/such/folder/token");
  ASSERT_FALSE(token.ok());
  EXPECT_THAT(std::string(token.status().message()), HasSubstr("No such file"));
}

TEST(IsTokenTest, WantsAllOfIt) {
  EXPECT_TRUE(IsToken("0123456789abcdef", "0123456789abcdef"));
  for (const char* asked : {"", "0123456789abcde", "0123456789abcdef0", "1123456789abcdef", "0123456789abcdeF"})
    EXPECT_FALSE(IsToken("0123456789abcdef", asked)) << asked;
}

TEST(IsLocalHostTest, TakesNamesOfLoopback) {
  for (const char* host : {"127.0.0.1", "127.0.0.1:80", "localhost", "localhost:46117", "[::1]", "[::1]:1"})
    EXPECT_TRUE(IsLocalHost(host)) << host;
  for (const char* host : {"", "example.org", "127.0.0.1.example.org", "localhost.example.org",
                           "127.0.0.1:", "127.0.0.1:80a", "localhost:80@example.org", "10.0.0.1", "0.0.0.0"})
    EXPECT_FALSE(IsLocalHost(host)) << host;
}

}  // namespace
}  // namespace gpumem
