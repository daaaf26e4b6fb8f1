// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/writer/trace_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "shim/writer/fields.h"

namespace gpumemshim::writer {
namespace {

class TraceFileTest : public testing::Test {
 protected:
  TraceFileTest() {
    char name[] = "/tmp/gpumemshim-trace-file-XXXXXX";
    folder_ = mkdtemp(name);
    if (message_.Reserve(3)) message_.Resize(3);
  }
  ~TraceFileTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const char* name) const { return folder_ + "/" + name; }

  // The descriptor of an open file, found by its identity as any part of a program could.
  static int DescriptorOf(const std::string& path) {
    struct stat wanted = {}, status = {};
    EXPECT_EQ(stat(path.c_str(), &wanted), 0);
    for (int fd = 0; fd < 4096; ++fd) {
      if (fstat(fd, &status) == 0 && status.st_ino == wanted.st_ino && status.st_dev == wanted.st_dev) return fd;
    }
    return -1;
  }

  std::string folder_;
  Buffer message_;
  TraceFile file_;
};

TEST_F(TraceFileTest, TakesNoLowDescriptor) {
  const int lowest = open("/dev/null", O_RDONLY);
  close(lowest);
  ASSERT_TRUE(file_.Open(Path("a.gmtrace").c_str(), message_));
  EXPECT_GE(DescriptorOf(Path("a.gmtrace")), 900);
  const int next = open("/dev/null", O_RDONLY);
  EXPECT_EQ(next, lowest);
  close(next);
}

TEST_F(TraceFileTest, GoesOnWhereTheProgramClosedTheDescriptor) {
  ASSERT_TRUE(file_.Open(Path("a.gmtrace").c_str(), message_));
  const auto size = std::filesystem::file_size(Path("a.gmtrace"));
  close(DescriptorOf(Path("a.gmtrace")));
  EXPECT_TRUE(file_.AppendPlain(fields::Packet::kHeader, message_));
  EXPECT_GT(std::filesystem::file_size(Path("a.gmtrace")), size);
}

TEST_F(TraceFileTest, NeverWritesToWhatTheProgramPutInItsPlace) {
  ASSERT_TRUE(file_.Open(Path("a.gmtrace").c_str(), message_));
  const auto size = std::filesystem::file_size(Path("a.gmtrace"));
  const int ours = DescriptorOf(Path("a.gmtrace"));
  const int own = open(Path("own").c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_EQ(dup2(own, ours), ours);
  EXPECT_TRUE(file_.AppendPlain(fields::Packet::kHeader, message_));
  EXPECT_EQ(std::filesystem::file_size(Path("own")), 0U);
  EXPECT_GT(std::filesystem::file_size(Path("a.gmtrace")), size);
  file_.Close();
  struct stat status = {};
  EXPECT_EQ(fstat(ours, &status), 0) << "closed what is the program's";
  close(ours);
  close(own);
}

TEST_F(TraceFileTest, GivesUpWhereTheFileIsGoneToo) {
  ASSERT_TRUE(file_.Open(Path("a.gmtrace").c_str(), message_));
  close(DescriptorOf(Path("a.gmtrace")));
  std::filesystem::remove(Path("a.gmtrace"));
  EXPECT_FALSE(file_.AppendPlain(fields::Packet::kHeader, message_));
  EXPECT_NE(std::string(file_.error()), "");
  EXPECT_FALSE(std::filesystem::exists(Path("a.gmtrace")));
}

}  // namespace
}  // namespace gpumemshim::writer
