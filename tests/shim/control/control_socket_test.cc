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

}  // namespace
}  // namespace gpumemshim::control
