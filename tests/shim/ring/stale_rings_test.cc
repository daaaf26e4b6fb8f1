// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/ring/stale_rings.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

namespace gpumemshim::ring {
namespace {

class StaleRingsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(mkdtemp(folder_), nullptr);
    gone_ = fork();
    if (gone_ == 0) _exit(0);
    ASSERT_EQ(waitpid(gone_, nullptr, 0), gone_);  // its number is free from here on, and not given out again at once
  }
  void TearDown() override { EXPECT_EQ(system(("rm -r " + std::string(folder_)).c_str()), 0); }

  std::string Put(const std::string& name) {
    const std::string path = folder_ + ("/" + name);
    close(open(path.c_str(), O_CREAT | O_WRONLY, 0600));
    return path;
  }
  std::string RingOf(pid_t pid, const std::string& end = ".77.ring") {
    return Put("gpumem." + std::to_string(pid) + end);
  }
  uint32_t RemoveAfter(time_t seconds) { return RemoveStaleRings(folder_, time(nullptr) + seconds); }
  static bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

  char folder_[32] = "/tmp/stale_rings.XXXXXX";
  pid_t gone_ = 0;
};

TEST_F(StaleRingsTest, OnlyOldRingsOfProcessesThatAreGone) {
  const std::string gone = RingOf(gone_), again = RingOf(gone_, ".77.1.ring"), living = RingOf(getpid());
  EXPECT_EQ(RemoveAfter(kKeepSeconds - 60), 0u);
  EXPECT_EQ(RemoveAfter(kKeepSeconds + 60), 2u);
  EXPECT_FALSE(Exists(gone));
  EXPECT_FALSE(Exists(again));
  EXPECT_TRUE(Exists(living));
}

// A process of another PID namespace is not found by its number, but holds its ring's lock.
TEST_F(StaleRingsTest, NoRingThatSomebodyHolds) {
  const std::string ring = RingOf(gone_);
  const int holder = open(ring.c_str(), O_RDWR);
  ASSERT_EQ(flock(holder, LOCK_EX), 0);
  EXPECT_EQ(RemoveAfter(kKeepSeconds + 60), 0u);
  close(holder);
  EXPECT_EQ(RemoveAfter(kKeepSeconds + 60), 1u);
}

TEST_F(StaleRingsTest, NothingThatIsNotARing) {
  const std::string pid = std::to_string(gone_);
  Put("gpumem." + pid + ".77");
  Put("gpumem.ring");
  Put("gpumem..ring");
  Put("gpumem.x" + pid + ".77.ring");
  Put("gpumem.99999999999999999999.77.ring");
  Put("other." + pid + ".77.ring");
  ASSERT_EQ(symlink("/etc/hostname", (folder_ + ("/gpumem." + pid + ".78.ring")).c_str()), 0);
  EXPECT_EQ(RemoveAfter(10 * kKeepSeconds), 0u);
}

TEST_F(StaleRingsTest, AFolderThatIsNotThereIsNoError) {
  errno = EBADMSG;
  EXPECT_EQ(RemoveStaleRings("/no/such/folder", time(nullptr)), 0u);
  EXPECT_EQ(errno, EBADMSG);
}

}  // namespace
}  // namespace gpumemshim::ring
