// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/control/stderr_line.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace gpumemshim::control {
namespace {

// Runs `child` in a process of its own, where `stderr_fd` is its stderr. Returns its wait status.
template <typename Child>
int StatusOf(int stderr_fd, Child child) {
  const pid_t pid = fork();
  if (pid == 0) {
    if (stderr_fd >= 0) dup2(stderr_fd, STDERR_FILENO);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    child();
    _exit(7);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return status;
}

constexpr int kExited7 = 7 << 8;

TEST(StderrLineTest, WritesToAPipe) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_EQ(StatusOf(ends[1], [] { WriteLine("a line\n", 7); }), kExited7);
  char text[16] = {};
  EXPECT_EQ(read(ends[0], text, sizeof text), 7);
  EXPECT_STREQ(text, "a line\n");
}

TEST(StderrLineTest, AReaderThatHasGoneEndsNothing) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  EXPECT_EQ(StatusOf(ends[1],
                     [] {
                       WriteLine("a line\n", 7);
                       sigset_t pending;
                       if (sigpending(&pending) != 0 || sigismember(&pending, SIGPIPE) != 0) _exit(1);
                     }),
            kExited7);
}

TEST(StderrLineTest, AFullPipeHoldsNothingUp) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_NONBLOCK), 0);
  while (write(ends[1], "xxxxxxxx", 8) > 0) {
  }
  ASSERT_EQ(fcntl(ends[1], F_SETFL, 0), 0);
  EXPECT_EQ(StatusOf(ends[1], [] { WriteLine("a line\n", 7); }), kExited7);
}

TEST(StderrLineTest, ALimitOnFilesEndsNothing) {
  char path[] = "/tmp/gpumemshim_stderr.XXXXXX";
  const int made = mkstemp(path);
  const int file = open(path, O_WRONLY);
  unlink(path);
  EXPECT_EQ(StatusOf(file,
                     [] {
                       const rlimit limit = {0, 0};
                       setrlimit(RLIMIT_FSIZE, &limit);
                       WriteLine("a line\n", 7);
                     }),
            kExited7);
  close(file);
  close(made);
}

TEST(StderrLineTest, AFileOfTheProgramUnderThatNumberStaysAsItIs) {
  char path[] = "/tmp/gpumemshim_stderr.XXXXXX";
  const int made = mkstemp(path);
  const std::string name = path;
  EXPECT_EQ(StatusOf(-1,
                     [&] {
                       close(STDERR_FILENO);
                       if (open(name.c_str(), O_RDWR | O_CLOEXEC) != STDERR_FILENO) _exit(1);
                       WriteLine("a line\n", 7);
                     }),
            kExited7);
  struct stat status;
  ASSERT_EQ(fstat(made, &status), 0);
  EXPECT_EQ(status.st_size, 0);
  unlink(path);
  close(made);
}

}  // namespace
}  // namespace gpumemshim::control
