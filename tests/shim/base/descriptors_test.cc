// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/base/descriptors.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <thread>
#include <utility>

namespace gpumemshim::descriptors {
namespace {

int OpenNull() { return open("/dev/null", O_WRONLY | O_CLOEXEC); }

TEST(Descriptors, AreRaised) {
  const int low = OpenNull();
  const int raised = Raise(low);
  EXPECT_GE(raised, 900);
  EXPECT_EQ(fcntl(low, F_GETFD), -1);
  EXPECT_EQ(fcntl(raised, F_GETFD), FD_CLOEXEC);
  EXPECT_EQ(Raise(-1), -1);
  close(raised);
}

TEST(Descriptors, AreRaisedAsFarAsTheLimitAllows) {
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  for (const auto& [limit, least] : {std::pair{rlim_t{300}, 200}, std::pair{rlim_t{100}, 3}}) {
    const rlimit small = {limit, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &small), 0);
    const int raised = Raise(OpenNull());
    EXPECT_GE(raised, least);
    close(raised);
  }
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST(Descriptors, WhatHasNotTheMarkIsLeftToTheProgram) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK | O_DIRECT), 0);
  const int reader = Raise(ends[0], {S_IFIFO, O_NONBLOCK});
  EXPECT_GE(reader, 900);
  const int theirs = OpenNull();
  ASSERT_EQ(dup2(theirs, ends[1]), ends[1]);  // as if the program had closed the number and opened a file
  EXPECT_EQ(Raise(ends[1], {S_IFIFO, O_NONBLOCK | O_DIRECT}), -1);
  EXPECT_EQ(errno, EBADF);
  EXPECT_GE(fcntl(ends[1], F_GETFD), 0);
  EXPECT_EQ(fcntl(901, F_GETFD), -1);
  ASSERT_EQ(pipe(ends), 0);  // a pipe of the program's
  EXPECT_EQ(Raise(ends[1], {S_IFIFO, O_NONBLOCK | O_DIRECT}), -1);
  EXPECT_GE(fcntl(ends[1], F_GETFD), 0);
  for (const int fd : {reader, theirs, ends[0], ends[1]}) close(fd);
}

TEST(Descriptors, ANumberClosedMeanwhileIsTheProgramsToGive) {
  const int low = OpenNull();
  ASSERT_EQ(close(low), 0);
  EXPECT_EQ(Raise(low), -1);
  EXPECT_EQ(errno, EBADF);
}

TEST(Descriptors, AMarkNamesTheFile) {
  struct stat null;
  ASSERT_EQ(stat("/dev/null", &null), 0);
  const Mark mark{.type = S_IFCHR, .file = {null.st_dev, null.st_ino}};
  const int device = Raise(open("/dev/null", O_RDWR | O_CLOEXEC), mark);
  EXPECT_GE(device, 200);
  const int other = open("/dev/zero", O_RDWR | O_CLOEXEC);  // the program's, under the number that was ours
  EXPECT_EQ(Raise(other, mark), -1);
  EXPECT_GE(fcntl(other, F_GETFD), 0);
  close(device);
  close(other);
}

TEST(Descriptors, AMarkForWhatHasNoType) {
  const Mark mark{.type = Mark::kNoType, .flags = O_RDWR};
  const int event = Raise(eventfd(0, EFD_CLOEXEC), mark);
  EXPECT_GE(event, 200);
  const int file = open("/dev/null", O_RDWR | O_CLOEXEC);
  EXPECT_EQ(Raise(file, mark), -1);
  EXPECT_GE(fcntl(file, F_GETFD), 0);
  close(event);
  close(file);
}

TEST(Descriptors, AreKnownByWhatTheyStandFor) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const Identity identity = IdentityOf(ends[0]);
  EXPECT_TRUE(Is(ends[0], identity));
  EXPECT_TRUE(Is(ends[1], identity));
  const int other = OpenNull();
  ASSERT_EQ(dup2(other, ends[0]), ends[0]);
  EXPECT_FALSE(Is(ends[0], identity));
  close(ends[1]);
  EXPECT_FALSE(Is(ends[1], identity));
  EXPECT_FALSE(Is(-1, {}));
  EXPECT_FALSE(Is(-1, identity));
  close(ends[0]);
  close(other);
}

TEST(Descriptors, OfAThreadAlone) {
  const int shared = OpenNull();
  bool left = false, sees_shared = true, sees_own = false;
  int own = -1;
  std::thread([&] {
    left = LeaveTable(3);
    sees_shared = fcntl(shared, F_GETFD) >= 0;
    own = fcntl(OpenNull(), F_DUPFD_CLOEXEC, 700);  // a number that nothing has here, whatever we were started with
    sees_own = fcntl(own, F_GETFD) >= 0;
  }).join();
  if (!left) GTEST_SKIP() << "close_range cannot do that here";
  EXPECT_FALSE(sees_shared);
  EXPECT_TRUE(sees_own);
  EXPECT_GE(fcntl(shared, F_GETFD), 0);
  close(shared);
  EXPECT_EQ(fcntl(own, F_GETFD), -1);
}

}  // namespace
}  // namespace gpumemshim::descriptors
