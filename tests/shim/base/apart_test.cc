// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/base/apart.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

namespace gpumemshim::apart {
namespace {

long ThreadId() { return syscall(SYS_gettid); }

class ApartTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Start();
    Do([this] { thread_ = ThreadId(); });
    if (thread_ == ThreadId()) GTEST_SKIP() << "no descriptors of one's own here";
  }
  void TearDown() override { Stop(); }
  long thread_ = 0;
};

TEST_F(ApartTest, ItsDescriptorsAreNotOurs) {
  int theirs = -1;
  const int ours = open("/dev/null", O_RDONLY | O_CLOEXEC);
  bool sees_ours = true;
  Do([&] {
    sees_ours = fcntl(ours, F_GETFD) >= 0;
    const int low = open("/dev/null", O_RDONLY | O_CLOEXEC);
    theirs = fcntl(low, F_DUPFD_CLOEXEC, 700);  // a number that nothing has here, whatever we were started with
    EXPECT_GT(low, STDERR_FILENO);              // nothing of ours is under the number of a standard stream
    close(low);
  });
  EXPECT_FALSE(sees_ours);
  EXPECT_GE(theirs, 700);
  close(ours);
  EXPECT_EQ(fcntl(theirs, F_GETFD), -1);
}

TEST_F(ApartTest, OneAfterTheOther) {
  uint64_t sum = 0;  // no atomic
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 1000; ++k) Do([&] { ++sum; });
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sum, 4000u);
}

TEST_F(ApartTest, WithinItselfAndAfterItsEnd) {
  long inner = 0;
  Do([&] { Do([&] { inner = ThreadId(); }); });
  EXPECT_EQ(inner, thread_);
  Stop();
  Do([&] { inner = ThreadId(); });
  EXPECT_EQ(inner, ThreadId());
  Start();
  Do([&] { inner = ThreadId(); });
  EXPECT_NE(inner, ThreadId());
}

TEST_F(ApartTest, AForkedChildDoesItItself) {
  const pid_t child = fork();
  if (child == 0) {
    ForgetInChild();
    bool here = false;
    Do([&] { here = ThreadId() == getpid(); });
    _exit(here ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace gpumemshim::apart
