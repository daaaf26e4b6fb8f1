// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/control/server/callers.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace gpumemshim::control {
namespace {

constexpr uint64_t kNow = 5'000'000'000;

class CallersTest : public ::testing::Test {
 protected:
  ~CallersTest() override {
    callers_.CloseAll();
    for (int end : ends_) close(end);
  }

  // The far end of a new connection.
  int Connect(uint64_t now_ns) {
    int pair[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
    callers_.Add(pair[0], now_ns);
    ends_.push_back(pair[1]);
    return pair[1];
  }

  static void Say(int end, const std::string& text) {
    ASSERT_EQ(send(end, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }

  // The next line; "-" where there is none.
  std::string Line(uint64_t now_ns) {
    int fd = -1;
    const char* line = nullptr;
    size_t size = 0;
    if (!callers_.TakeLine(now_ns, &fd, &line, &size)) return "-";
    close(fd);
    return {line, size};
  }

  uint32_t Count() {
    pollfd fds[Callers::kMax];
    return callers_.PutFds(fds);
  }

  Callers callers_;
  std::vector<int> ends_;
};

TEST_F(CallersTest, LinesOfSeveral) {
  const int first = Connect(kNow), second = Connect(kNow);
  EXPECT_EQ(Line(kNow), "-");
  Say(second, "status\nmore");
  Say(first, "fl");
  EXPECT_EQ(Line(kNow), "status");
  EXPECT_EQ(Line(kNow), "-");
  Say(first, "ush\n");
  EXPECT_EQ(Line(kNow), "flush");
  EXPECT_EQ(Count(), 0u);
}

TEST_F(CallersTest, TimeIsUpInAll) {
  const int slow = Connect(kNow);
  for (uint64_t after_ns = 0; after_ns < Callers::kPatienceNs; after_ns += 100'000'000) {
    Say(slow, "x");
    EXPECT_EQ(Line(kNow + after_ns), "-");
    EXPECT_EQ(Count(), 1u);
  }
  Say(slow, "x");
  EXPECT_EQ(Line(kNow + Callers::kPatienceNs), "-");
  EXPECT_EQ(Count(), 0u);
  EXPECT_LT(send(slow, "x", 1, MSG_NOSIGNAL), 0);
}

TEST_F(CallersTest, TheOldestMakesRoom) {
  const int oldest = Connect(kNow);
  for (uint32_t i = 1; i < Callers::kMax; ++i) Connect(kNow + i);
  EXPECT_EQ(Count(), Callers::kMax);
  Say(Connect(kNow + 100), "status\n");
  EXPECT_EQ(Count(), Callers::kMax);
  EXPECT_LT(send(oldest, "x", 1, MSG_NOSIGNAL), 0);
  EXPECT_EQ(Line(kNow + 100), "status");
}

TEST_F(CallersTest, TooLong) {
  Say(Connect(kNow), std::string(kMaxRequestBytes, 'x'));
  EXPECT_EQ(Line(kNow), "-");
  EXPECT_EQ(Count(), 0u);
}

// The program closes what it does not know and opens a socket of its own under the number.
TEST_F(CallersTest, ANumberThatIsSomebodyElsesByNow) {
  int own[2], pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, own), 0);
  callers_.Add(pair[0], kNow);
  ASSERT_EQ(dup2(own[0], pair[0]), pair[0]);
  Say(own[1], "not for you\n");
  EXPECT_EQ(Line(kNow), "-");
  EXPECT_EQ(Count(), 0u);
  char text[16];
  EXPECT_EQ(recv(pair[0], text, sizeof text, MSG_DONTWAIT), 12);
  for (int fd : {own[0], own[1], pair[0], pair[1]}) close(fd);
}

}  // namespace
}  // namespace gpumemshim::control
