// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/control/summary_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>

namespace gpumemshim::control {
namespace {

class SummaryFolderTest : public testing::Test {
 protected:
  SummaryFolderTest() {
    char name[] = "/tmp/gpumemshim-summary-folder-XXXXXX";
    place_ = mkdtemp(name);
  }
  ~SummaryFolderTest() override { std::filesystem::remove_all(place_); }

  std::string Make(int32_t pid, int64_t age_seconds) {
    char folder[512];
    EXPECT_TRUE(MakeSummaryFolder(place_.c_str(), pid, 77, folder, sizeof folder));
    const std::string file = std::string(folder) + "/trace.gmtrace";
    std::ofstream(file) << "events";
    const timeval then = {std::time(nullptr) - age_seconds, 0}, times[2] = {then, then};
    EXPECT_EQ(utimes(file.c_str(), times), 0);
    EXPECT_EQ(utimes(folder, times), 0);
    return folder;
  }
  // Of a process that is gone.
  static int32_t DeadPid() {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    waitpid(child, nullptr, 0);
    return child;
  }
  std::string place_;
};

TEST_F(SummaryFolderTest, IsOursAloneAndGoesWithAllThatIsInIt) {
  const std::string folder = Make(getpid(), 0);
  struct stat status;
  ASSERT_EQ(stat(folder.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  char again[512];
  EXPECT_FALSE(MakeSummaryFolder(place_.c_str(), getpid(), 77, again, sizeof again)) << "never somebody else's";
  RemoveSummaryFolder(folder.c_str());
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST_F(SummaryFolderTest, ThoseOfDeadProcessesGo) {
  const std::string dead = Make(DeadPid(), 1000), recent = Make(DeadPid(), 10), alive = Make(getpid(), 1000);
  std::filesystem::create_directory(place_ + "/gpumemshim-other");
  ClearDeadSummaryFolders(place_.c_str());
  EXPECT_FALSE(std::filesystem::exists(dead));
  EXPECT_TRUE(std::filesystem::exists(recent)) << "of another PID namespace, perhaps";
  EXPECT_TRUE(std::filesystem::exists(alive));
  EXPECT_TRUE(std::filesystem::exists(place_ + "/gpumemshim-other"));
}

}  // namespace
}  // namespace gpumemshim::control
