// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/witness/oom/standard_error.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>

namespace gpumemshim::oom {
namespace {

// Whether it is usable with descriptor 2 replaced by `fd`, which is closed.
bool UsableAs(const StandardError& error, int fd) {
  EXPECT_GE(fd, 0);
  const int before = dup(STDERR_FILENO);
  dup2(fd, STDERR_FILENO);
  close(fd);
  const bool usable = error.Usable();
  dup2(before, STDERR_FILENO);
  close(before);
  return usable;
}

int TemporaryFile(int flags) {
  char name[] = "/tmp/gpumemshim-error-XXXXXX";
  const int made = mkstemp(name);
  const int fd = open(name, O_WRONLY | flags);
  unlink(name);
  close(made);
  return fd;
}

TEST(StandardErrorTest, IsUsableAsItWas) {
  StandardError error;
  error.Remember();
  EXPECT_TRUE(error.Usable());
}

TEST(StandardErrorTest, IsUsableAsALogOrAPipe) {
  StandardError error;
  error.Remember();
  EXPECT_TRUE(UsableAs(error, TemporaryFile(O_APPEND)));
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_TRUE(UsableAs(error, ends[1]));
  close(ends[0]);
}

TEST(StandardErrorTest, IsNotUsableAsSomethingOfTheProgram) {
  StandardError error;
  error.Remember();
  EXPECT_FALSE(UsableAs(error, TemporaryFile(0)));
  EXPECT_FALSE(UsableAs(error, socket(AF_UNIX, SOCK_STREAM, 0)));
}

TEST(StandardErrorTest, IsNotUsableWhereItIsClosed) {
  StandardError error;
  error.Remember();
  const int before = dup(STDERR_FILENO);
  close(STDERR_FILENO);
  const bool usable = error.Usable();
  dup2(before, STDERR_FILENO);
  close(before);
  EXPECT_FALSE(usable);
}

}  // namespace
}  // namespace gpumemshim::oom
