// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/control/server/control_socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

namespace gpumemshim::control {
namespace {

namespace fs = std::filesystem;

class ControlSocketTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/gpumemshim-socket-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
    setenv("XDG_RUNTIME_DIR", name, 1);
  }
  void TearDown() override {
    unsetenv("XDG_RUNTIME_DIR");
    fs::remove_all(folder_);
  }

  bool CanConnect(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) return false;
    path.copy(address.sun_path, path.size());
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool connected = connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    close(fd);
    return connected;
  }

  std::string folder_;
  ControlSocket socket_;
};

mode_t ModeOf(const std::string& path) {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0 ? status.st_mode & 0777 : 0;
}

TEST_F(ControlSocketTest, LiesInTheRuntimeDirectoryForItsUserAlone) {
  const mode_t before = umask(0);
  ASSERT_TRUE(OpenControlSocket("", 4242, &socket_));
  umask(before);
  EXPECT_EQ(std::string(socket_.path), folder_ + "/gpumemshim/4242.sock");
  EXPECT_EQ(ModeOf(folder_ + "/gpumemshim"), 0700u);
  EXPECT_EQ(ModeOf(socket_.path), 0600u);
  EXPECT_TRUE(CanConnect(socket_.path));
  CloseControlSocket(&socket_);
  EXPECT_TRUE(fs::is_empty(folder_ + "/gpumemshim"));
}

TEST_F(ControlSocketTest, ADirectoryThatIsNotOursAloneIsNotUsed) {
  fs::create_directory(folder_ + "/open");
  chmod((folder_ + "/open").c_str(), 0777);
  EXPECT_FALSE(OpenControlSocket((folder_ + "/open").c_str(), 1, &socket_));
  fs::create_directory(folder_ + "/real");
  fs::create_directory_symlink(folder_ + "/real", folder_ + "/link");
  EXPECT_FALSE(OpenControlSocket((folder_ + "/link").c_str(), 1, &socket_));
  EXPECT_FALSE(OpenControlSocket((folder_ + "/no/such").c_str(), 1, &socket_));
  EXPECT_EQ(socket_.fd, -1);
  EXPECT_TRUE(OpenControlSocket((folder_ + "/real").c_str(), 1, &socket_));
  CloseControlSocket(&socket_);
}

// An attacker's link in the place of the socket leads nowhere: bind does not follow it.
TEST_F(ControlSocketTest, ALinkInItsPlaceIsNotFollowed) {
  fs::create_directory(folder_ + "/d");
  chmod((folder_ + "/d").c_str(), 0700);
  fs::create_symlink(folder_ + "/victim", folder_ + "/d/7.sock");
  ASSERT_TRUE(OpenControlSocket((folder_ + "/d").c_str(), 7, &socket_));
  EXPECT_FALSE(fs::exists(folder_ + "/victim"));
  CloseControlSocket(&socket_);
}

TEST_F(ControlSocketTest, AStaleOneIsReplacedALiveOneIsNot) {
  ControlSocket first, second;
  ASSERT_TRUE(OpenControlSocket("", 5, &first));
  ASSERT_TRUE(OpenControlSocket("", 5, &second));
  EXPECT_EQ(std::string(second.path), folder_ + "/gpumemshim/5.2.sock");
  ForgetControlSocket(&first);  // as a kill leaves it: the file without a listener
  ASSERT_TRUE(OpenControlSocket("", 5, &first));
  EXPECT_EQ(std::string(first.path), folder_ + "/gpumemshim/5.sock");
  CloseControlSocket(&first);
  CloseControlSocket(&second);
}

TEST_F(ControlSocketTest, StaleOnesAreSweptAndNothingElse) {
  ControlSocket gone, alive;
  ASSERT_TRUE(OpenControlSocket("", 1001, &gone));
  ForgetControlSocket(&gone);
  ASSERT_TRUE(OpenControlSocket("", 1002, &alive));
  close(open((folder_ + "/gpumemshim/1003.sock").c_str(), O_CREAT | O_WRONLY, 0600));
  close(open((folder_ + "/gpumemshim/notes").c_str(), O_CREAT | O_WRONLY, 0600));
  ASSERT_TRUE(OpenControlSocket("", 1004, &socket_));
  EXPECT_GE(RemoveStaleSockets(socket_), 1u);
  EXPECT_FALSE(fs::exists(folder_ + "/gpumemshim/1001.sock"));
  EXPECT_TRUE(CanConnect(alive.path));
  EXPECT_TRUE(CanConnect(socket_.path));
  EXPECT_TRUE(fs::exists(folder_ + "/gpumemshim/notes"));
  CloseControlSocket(&alive);
  CloseControlSocket(&socket_);
}

TEST_F(ControlSocketTest, APathTooLongForAnAddress) {
  std::string deep = folder_;
  for (int i = 0; i < 8; ++i) {
    deep += "/" + std::string(40, 'd');
    fs::create_directory(deep);
    chmod(deep.c_str(), 0700);
  }
  ASSERT_TRUE(OpenControlSocket(deep.c_str(), 6, &socket_));
  EXPECT_TRUE(fs::exists(deep + "/6.sock"));
  CloseControlSocket(&socket_);
  EXPECT_FALSE(fs::exists(deep + "/6.sock"));
}

// The program closed our descriptor and opened a file of its own, which got the number.
TEST_F(ControlSocketTest, ADescriptorThatIsSomebodyElsesNowIsLeftAlone) {
  ASSERT_TRUE(OpenControlSocket("", 8, &socket_));
  const int number = socket_.fd;
  const int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(dup2(file, number), number);
  EXPECT_FALSE(IsStillOpen(socket_));
  CloseControlSocket(&socket_);
  EXPECT_NE(fcntl(number, F_GETFD), -1);
  close(number);
  close(file);
}

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
