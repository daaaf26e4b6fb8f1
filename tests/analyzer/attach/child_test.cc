// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "attach/child.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

namespace gpumem {
namespace {

// Says "r" when it is ready, then a letter for each signal: U for SIGUSR1, and ends at SIGUSR2.
constexpr char kCounts[] = R"(import os, signal
both = {signal.SIGUSR1, signal.SIGUSR2}
signal.pthread_sigmask(signal.SIG_BLOCK, both)
os.write(1, b"r")
while signal.sigwaitinfo(both).si_signo == signal.SIGUSR1: os.write(1, b"U"))";

// What is there within the time; "" at the end.
std::string ReadFor(int input, int milliseconds) {
  std::string text;
  pollfd ready{input, POLLIN, 0};
  char byte = 0;
  while (poll(&ready, 1, milliseconds) > 0 && read(input, &byte, 1) == 1) text += byte;
  return text;
}

std::string ReadOne(int input) {
  char byte = 0;
  return read(input, &byte, 1) == 1 ? std::string(1, byte) : "";
}

TEST(RunChild, ASignalToTheGroupReachesTheChildOnceAndOneToUsToo) {
  int output[2];
  ASSERT_EQ(pipe(output), 0);
  const pid_t runner = fork();
  if (runner == 0) {
    setpgid(0, 0);
    dup2(output[1], 1);
    close(output[0]);
    close(output[1]);
    _exit(RunChild({"python3", "-c", kCounts}).ok() ? 0 : 1);
  }
  close(output[1]);
  ASSERT_EQ(ReadOne(output[0]), "r");
  ReadFor(output[0], 100);  // until we wait for it
  int once = 0;
  for (int i = 0; i < 3; ++i) {
    kill(-runner, SIGUSR1);
    once += ReadFor(output[0], 400) == "U" ? 1 : 0;
    kill(runner, SIGUSR1);
    EXPECT_EQ(ReadOne(output[0]), "U");
  }
  EXPECT_GE(once, 2);  // a machine so busy that the witness says it too late is allowed once
  kill(runner, SIGUSR2);
  EXPECT_EQ(ReadOne(output[0]), "");  // nothing of ours holds the pipe
  int status = 0;
  waitpid(runner, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  close(output[0]);
}

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
