// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The simulation reads its environment once, so each test's body runs in a forked child that sets it first.
#ifndef TESTS_SIMCUDA_DRIVER_RUN_IN_CHILD_H_
#define TESTS_SIMCUDA_DRIVER_RUN_IN_CHILD_H_

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace simcuda {

using Settings = std::vector<std::pair<std::string, std::string>>;

// Runs the body in a child; its failed expectations fail this test. Returns the exit status.
inline int RunInChild(const Settings& settings, const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (const auto& [name, value] : settings) ::setenv(name.c_str(), value.c_str(), 1);
    body();
    std::fflush(nullptr);
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

inline std::string TemporaryPath(const char* name) {
  return testing::TempDir() + "simcuda." + std::to_string(::getpid()) + "." + name;
}

}  // namespace simcuda

#endif  // TESTS_SIMCUDA_DRIVER_RUN_IN_CHILD_H_
