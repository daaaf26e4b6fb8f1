// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "base/process_status.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

namespace gpumem {
namespace {

TEST(ProcessStatusTest, OfThisProcess) {
  EXPECT_EQ(ProcessStatus(getpid(), "Tgid"), std::to_string(getpid()));
  EXPECT_EQ(ProcessStatus(getpid(), "NoSuchField"), "");
  EXPECT_EQ(ParentOf(getpid()), getppid());
  EXPECT_TRUE(IsAtOrBelow(getpid(), getppid()));
}

TEST(ProcessStatusTest, OneThatNobodyAskedAfterHasEnded) {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  EXPECT_FALSE(HasEnded(child));
  kill(child, SIGKILL);
  siginfo_t info{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(kill(child, 0), 0);  // it is still there
  EXPECT_TRUE(HasEnded(child));
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(HasEnded(child));
}

}  // namespace
}  // namespace gpumem
