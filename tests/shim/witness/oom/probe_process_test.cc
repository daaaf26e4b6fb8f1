// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/witness/oom/probe_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <string>

namespace gpumemshim::oom {
namespace {

std::atomic<int> g_signals;

// Runs a shell's script to its end and returns what it printed.
std::string Printed(const char* script, uint32_t timeout_ms = 30'000) {
  const char* argv[] = {"sh", "-c", script, nullptr};
  const char* envp[] = {"GIVEN=yes", "PATH=/usr/bin:/bin", nullptr};
  ProbeProcess child;
  testing::internal::CaptureStderr();
  EXPECT_TRUE(child.Start("/bin/sh", argv, envp, timeout_ms));
  while (child.Running()) {
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);  // the host has no child that it could wait for
    EXPECT_EQ(errno, ECHILD);
    usleep(1000);
  }
  return testing::internal::GetCapturedStderr();
}

TEST(ProbeProcessTest, PrintsWhatTheProgramPrints) { EXPECT_EQ(Printed("echo one; echo two >&2"), "one\ntwo\n"); }

// It prints as it goes, is not a child that the host could wait for, and gets SIGTERM when it is to end.
TEST(ProbeProcessTest, RunsBesideTheHostUntilItsSupervisorEnds) {
  const char* argv[] = {"sh", "-c", "trap 'echo asked to end; exit' TERM; echo begun; while :; do sleep 0.01; done",
                        nullptr};
  const char* envp[] = {"PATH=/usr/bin:/bin", nullptr};
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const int before = dup(STDERR_FILENO);
  dup2(ends[1], STDERR_FILENO);
  close(ends[1]);
  ProbeProcess child;
  EXPECT_TRUE(child.StartBeside("/bin/sh", argv, envp));
  dup2(before, STDERR_FILENO);
  close(before);
  char text[64] = "";
  EXPECT_GT(read(ends[0], text, sizeof text), 0);
  EXPECT_EQ(std::string(text), "begun\n");
  EXPECT_TRUE(child.Running());
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  child.Kill();
  std::string rest;
  for (ssize_t got; (got = read(ends[0], text, sizeof text)) > 0;) rest.append(text, static_cast<size_t>(got));
  EXPECT_EQ(rest, "asked to end\n");
  while (child.Running()) usleep(1000);
  close(ends[0]);
}

TEST(ProbeProcessTest, GivesItsEnvironmentOnly) {
  ASSERT_EQ(setenv("HOSTS_OWN", "secret", 1), 0);
  EXPECT_EQ(Printed("echo $GIVEN $HOSTS_OWN"), "yes\n");
}

TEST(ProbeProcessTest, GivesNoDescriptor) {
  const int held = open("/dev/null", O_RDONLY);
  ASSERT_GE(held, 0);
  EXPECT_EQ(Printed("for fd in /proc/$$/fd/*; do [ ${fd##*/} -gt 2 ] && readlink $fd; done; echo end"), "end\n");
  close(held);
}

TEST(ProbeProcessTest, SendsNoSignal) {
  struct sigaction before, counting = {};
  counting.sa_handler = [](int) { g_signals.fetch_add(1); };
  ASSERT_EQ(sigaction(SIGCHLD, &counting, &before), 0);
  Printed("exit 3");
  sigaction(SIGCHLD, &before, nullptr);
  EXPECT_EQ(g_signals.load(), 0);
}

TEST(ProbeProcessTest, EndsAtItsTimeout) { EXPECT_EQ(Printed("echo begun; exec sleep 100", 300), "begun\n"); }

TEST(ProbeProcessTest, EndsWhenKilled) {
  const char* argv[] = {"sh", "-c", "exec sleep 100", nullptr};
  const char* envp[] = {"PATH=/usr/bin:/bin", nullptr};
  ProbeProcess child;
  ASSERT_TRUE(child.Start("/bin/sh", argv, envp, 60'000));
  EXPECT_FALSE(child.Start("/bin/sh", argv, envp, 60'000));
  child.Kill();
  while (child.Running()) usleep(1000);
}

TEST(ProbeProcessTest, AMissingProgramPrintsNothing) {
  const char* argv[] = {"nothing", nullptr};
  ProbeProcess child;
  testing::internal::CaptureStderr();
  ASSERT_TRUE(child.Start("/nowhere/nothing", argv, argv + 1, 60'000));
  while (child.Running()) usleep(1000);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace gpumemshim::oom
