// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "trace/process_state.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace gpumem {
namespace {

// Field 22 of /proc/PID/stat, counted from the end of the name.
uint64_t StartTicks(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  size_t at = text.rfind(')') + 1;
  for (int field = 2; field < 22; ++field) at = text.find(' ', at) + (field == 21 ? 0 : 1);
  return std::stoull(text.substr(at));
}

TEST(ProcessState, OursRuns) {
  const auto pid = static_cast<uint32_t>(getpid());
  EXPECT_EQ(StateOfProcess(pid, StartTicks(getpid())), ProcessState::kRunning);
  EXPECT_EQ(StateOfProcess(pid, StartTicks(getpid()) + 1), ProcessState::kEnded) << "another had this number before us";
}

TEST(ProcessState, WhatIsNotSaidIsNotKnown) {
  EXPECT_EQ(StateOfProcess(0, 5), ProcessState::kUnknown);
  EXPECT_EQ(StateOfProcess(static_cast<uint32_t>(getpid()), 0), ProcessState::kUnknown);
  trace::Header header;
  header.set_pid(static_cast<uint32_t>(getpid()));
  header.set_process_start_ticks(StartTicks(getpid()));
  header.set_hostname("another-machine.example");
  EXPECT_EQ(StateOf(header), ProcessState::kUnknown);
}

TEST(ProcessState, AZombieHasEnded) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    pause();
    _exit(0);
  }
  const uint64_t ticks = StartTicks(child);
  EXPECT_EQ(StateOfProcess(static_cast<uint32_t>(child), ticks), ProcessState::kRunning);
  kill(child, SIGKILL);
  siginfo_t info{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(StateOfProcess(static_cast<uint32_t>(child), ticks), ProcessState::kEnded);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(StateOfProcess(static_cast<uint32_t>(child), ticks), ProcessState::kEnded);
}

}  // namespace
}  // namespace gpumem
