// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "attach/child.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

namespace gpumem {
namespace {

TEST(RunChild, GivesTheStatus) {
  EXPECT_EQ(WEXITSTATUS(*RunChild({"sh", "-c", "exit 3"})), 3);
  const absl::StatusOr<int> killed = RunChild({"sh", "-c", "kill -USR1 $$"});
  ASSERT_TRUE(killed.ok());
  EXPECT_EQ(WTERMSIG(*killed), SIGUSR1);
}

TEST(RunChild, TellsAMissingProgramFromOneThatMayNotRun) {
  EXPECT_TRUE(absl::IsNotFound(RunChild({"/no/such/program"}).status()));
  EXPECT_TRUE(absl::IsPermissionDenied(RunChild({"/etc/passwd"}).status()));
}

TEST(EndLikeDeathTest, DiesOfTheSameSignal) {
  EXPECT_EQ(EndLike(W_EXITCODE(9, 0)), 9);
  EXPECT_EXIT(EndLike(W_EXITCODE(0, SIGTERM)), ::testing::KilledBySignal(SIGTERM), "");
}

}  // namespace
}  // namespace gpumem
