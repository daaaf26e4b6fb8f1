// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "base/output_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "base/file_output.h"

namespace gpumem {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using Kind = OutputPlace::Kind;

const dev_t kNull = makedev(1, 3), kFull = makedev(1, 7), kDisk = makedev(7, 250);

class OutputFileTest : public testing::Test {
 protected:
  OutputFileTest() : folder_(absl::StrCat(testing::TempDir(), "gpumemshim_output.", getpid())) {
    fs::create_directories(folder_);
  }
  ~OutputFileTest() override { fs::remove_all(folder_); }

  std::string In(const char* name) const { return absl::StrCat(folder_, "/", name); }
  static std::string ReadAll(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }
  static fs::perms ModeOf(const std::string& path) { return fs::status(path).permissions(); }
  auto count() const { return std::distance(fs::directory_iterator(folder_), {}); }

  // A device of our own, never the machine's. False: not allowed here.
  static bool MakeDevice(const std::string& path, mode_t kind, dev_t device) {
    return mknod(path.c_str(), kind | 0666, device) == 0;
  }
  // Where the file system makes no file without a name, or no device can be opened.
  static bool CanWrite(const std::string& path) {
    return access(path.c_str(), W_OK) == 0 && WriteOutput(path, "x", kNamed).ok();
  }

  static inline const OutputOptions kNamed{.is_named = true};
  std::string folder_;
};

TEST_F(OutputFileTest, TakesThePlaceOfWhatWasThere) {
  ASSERT_TRUE(WriteOutput(In("file"), "first, and longer").ok());
  ASSERT_TRUE(WriteOutput(In("file"), absl::string_view("a\0b", 3)).ok());
  EXPECT_EQ(ReadAll(In("file")), std::string("a\0b", 3));
  EXPECT_EQ(count(), 1);
}

TEST_F(OutputFileTest, IsNotThereBeforeCommitAndLeavesNothingWithoutIt) {
  {
    const auto file = OutputFile::Create(In("file"));
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE((*file)->Write("half").ok());
    EXPECT_EQ(ReadAll((*file)->readable_path()), "half");
    EXPECT_FALSE(fs::exists(In("file")));
  }
  EXPECT_EQ(count(), 0);
}

TEST_F(OutputFileTest, KeepsWhatIsThere) {
  ASSERT_TRUE(WriteOutput(In("file"), "old", {.keeps = true}).ok());
  const absl::Status status = WriteOutput(In("file"), "new", {.keeps = true, .hint = "Take another"});
  EXPECT_TRUE(absl::IsAlreadyExists(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("Take another"));
  const auto late = OutputFile::Create(In("late"), {.keeps = true});
  ASSERT_TRUE(late.ok());
  std::ofstream(In("late")) << "another was faster";
  EXPECT_TRUE(absl::IsAlreadyExists((*late)->Commit()));
  EXPECT_EQ(ReadAll(In("file")), "old");
  EXPECT_EQ(ReadAll(In("late")), "another was faster");
  EXPECT_EQ(count(), 2);
}

TEST_F(OutputFileTest, ALinkStaysAndWhatItLeadsToIsReplaced) {
  std::ofstream(In("other")) << "old";
  fs::create_symlink("other", In("link"));
  fs::create_symlink(In("link"), In("further"));
  ASSERT_TRUE(WriteOutput(In("further"), "new").ok());
  EXPECT_EQ(ReadAll(In("other")), "new");
  EXPECT_TRUE(fs::is_symlink(In("further")) && fs::is_symlink(In("link")) && !fs::is_symlink(In("other")));
  fs::create_symlink("made", In("dangling"));
  ASSERT_TRUE(WriteOutput(In("dangling"), "new").ok());
  EXPECT_EQ(ReadAll(In("made")), "new");
  fs::create_symlink("round", In("round"));
  EXPECT_TRUE(absl::IsInvalidArgument(WriteOutput(In("round"), "new")));
}

TEST_F(OutputFileTest, ALinkOfAnotherUserIsNotFollowed) {
  std::ofstream(In("other")) << "old";
  fs::create_symlink("other", In("link"));
  if (lchown(In("link").c_str(), 65534, 65534) != 0) GTEST_SKIP() << "giving links away needs root";
  const absl::Status status = WriteOutput(In("link"), "new", kNamed);
  EXPECT_THAT(std::string(status.message()), HasSubstr("another user"));
  EXPECT_EQ(ReadAll(In("other")), "old");
}

TEST_F(OutputFileTest, LeavesNothingWhereItFails) {
  fs::create_directories(In("taken") + "/inside");
  for (const char* name : {"taken", "missing/file", "taken/"}) {
    const absl::Status status = WriteOutput(In(name), "new");
    EXPECT_THAT(std::string(status.message()), HasSubstr(name)) << name;
  }
  EXPECT_EQ(count(), 1);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{16, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status status = WriteOutput(In("large"), std::string(100, 'x'));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(std::string(status.message()), HasSubstr("too large"));
  EXPECT_EQ(count(), 1);
}

TEST_F(OutputFileTest, IsPrivateUnlessAnotherFileIsNot) {
  const fs::perms own = fs::perms::owner_read | fs::perms::owner_write, shared = own | fs::perms::group_read;
  ASSERT_TRUE(WriteOutput(In("private"), "x").ok());
  EXPECT_EQ(ModeOf(In("private")), own);
  std::ofstream(In("like")) << "x";
  fs::permissions(In("like"), shared);
  ASSERT_TRUE(WriteOutput(In("shared"), "x", {.like = In("like")}).ok());
  EXPECT_EQ(ModeOf(In("shared")), shared);
  fs::permissions(In("private"), shared);
  ASSERT_TRUE(WriteOutput(In("private"), "y").ok());
  EXPECT_EQ(ModeOf(In("private")), shared);  // as its owner set it
}

TEST_F(OutputFileTest, ADeviceIsWrittenIntoWhereItIsNamed) {
  if (!MakeDevice(In("null"), S_IFCHR, kNull) || !CanWrite(In("null"))) GTEST_SKIP() << "no device can be made here";
  fs::create_symlink("null", In("link"));
  for (const char* name : {"null", "link"}) {
    EXPECT_TRUE(WriteOutput(In(name), "new", kNamed).ok());
    EXPECT_TRUE(WriteOutput(In(name), "new", {.is_named = true, .keeps = true}).ok());
    const absl::Status status = WriteOutput(In(name), "new");
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    EXPECT_THAT(std::string(status.message()), HasSubstr("is a device"));
    std::ofstream(In("from")) << "moved";
    EXPECT_FALSE(MoveToOutput(In("from"), In(name)).ok());
    EXPECT_TRUE(fs::exists(In("from")));
    EXPECT_TRUE(MoveToOutput(In("from"), In(name), kNamed).ok());
    EXPECT_FALSE(fs::exists(In("from")));
    EXPECT_FALSE(RemovePlainFile(In(name)));
  }
  EXPECT_TRUE(fs::is_character_file(fs::symlink_status(In("null"))));
  EXPECT_TRUE(fs::is_symlink(In("link")));
  EXPECT_EQ(count(), 2);
  ASSERT_TRUE(MakeDevice(In("full"), S_IFCHR, kFull));
  EXPECT_THAT(std::string(WriteOutput(In("full"), "new", kNamed).message()), HasSubstr("No space left"));
}

TEST_F(OutputFileTest, ADiskIsRefused) {
  if (!MakeDevice(In("disk"), S_IFBLK, kDisk)) GTEST_SKIP() << "no device can be made here";
  EXPECT_THAT(std::string(WriteOutput(In("disk"), "new", kNamed).message()), HasSubstr("is a disk"));
  EXPECT_TRUE(fs::is_block_file(In("disk")));
}

TEST_F(OutputFileTest, APipeIsWrittenIntoWhereItIsNamed) {
  ASSERT_EQ(mkfifo(In("pipe").c_str(), 0600), 0);
  const int reader = open(In("pipe").c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_TRUE(WriteOutput(In("pipe"), "new", kNamed).ok());
  char bytes[8];
  EXPECT_EQ(read(reader, bytes, sizeof bytes), 3);
  close(reader);
  EXPECT_THAT(std::string(WriteOutput(In("pipe"), "new").message()), HasSubstr("is a pipe"));
  EXPECT_TRUE(fs::is_fifo(In("pipe")));
}

TEST_F(OutputFileTest, ASocketIsRefused) {
  const int socket_fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(In("socket").size(), sizeof address.sun_path);
  strcpy(address.sun_path, In("socket").c_str());
  ASSERT_EQ(bind(socket_fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_THAT(std::string(WriteOutput(In("socket"), "new", kNamed).message()), HasSubstr("is a socket"));
  EXPECT_TRUE(fs::is_socket(In("socket")));
  close(socket_fd);
}

TEST_F(OutputFileTest, ADescriptorsNameIsTheDescriptor) {
  const int file = open(In("file").c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_TRUE(WriteAll(file, "before, "));
  fs::create_symlink(absl::StrCat("/dev/fd/", file), In("link"));
  for (const std::string& name : {absl::StrCat("/dev/fd/", file), absl::StrCat("/proc/self/fd/", file), In("link")}) {
    EXPECT_EQ(FindOutputPlace(name).kind, Kind::kDescriptor) << name;
    EXPECT_TRUE(WriteOutput(name, "more ", kNamed).ok()) << name;
    EXPECT_FALSE(WriteOutput(name, "more ").ok()) << name;
  }
  close(file);
  EXPECT_EQ(ReadAll(In("file")), "before, more more more ");
  EXPECT_EQ(FindOutputPlace("/dev/stdout").kind, Kind::kDescriptor);
}

TEST_F(OutputFileTest, IsMovedWithTheModeOfANewFile) {
  std::ofstream(In("from")) << "moved";
  fs::permissions(In("from"), fs::perms::all);
  std::ofstream(In("to")) << "old";
  EXPECT_TRUE(absl::IsAlreadyExists(MoveToOutput(In("from"), In("to"), {.keeps = true})));
  ASSERT_TRUE(MoveToOutput(In("from"), In("other")).ok());
  EXPECT_EQ(ReadAll(In("other")), "moved");
  EXPECT_EQ(ModeOf(In("other")), fs::perms::owner_read | fs::perms::owner_write);
  ASSERT_TRUE(MoveToOutput(In("other"), In("to")).ok());
  EXPECT_EQ(ReadAll(In("to")), "moved");
  EXPECT_EQ(count(), 1);
}

// As on file systems that know no file without a name.
bool RefuseNamelessFiles() {
  constexpr uint32_t kTmpfile = O_TMPFILE & ~O_DIRECTORY;
  sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
                        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
                        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, kTmpfile, 0, 1),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{static_cast<unsigned short>(std::size(code)), code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST_F(OutputFileTest, DoesTheSameUnderAnotherNameWhereFilesNeedOne) {
  const pid_t child = fork();
  if (child == 0) {
    if (!RefuseNamelessFiles()) _exit(0);
    const auto half = OutputFile::Create(In("file"));
    if (!half.ok() || count() != 1 || fs::exists(In("file"))) _exit(1);
    if (!(*half)->Write("old").ok() || !(*half)->Commit().ok() || ReadAll(In("file")) != "old") _exit(2);
    if (!WriteOutput(In("file"), "new").ok() || ReadAll(In("file")) != "new") _exit(3);
    if (!absl::IsAlreadyExists(WriteOutput(In("file"), "newer", {.keeps = true}))) _exit(4);
    if (count() != 1) _exit(5);
    const auto ended = OutputFile::Create(In("file"));
    if (!ended.ok() || count() != 2) _exit(6);
    raise(SIGTERM);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE((WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
      << WEXITSTATUS(status);
  EXPECT_LE(count(), 1);
}

TEST_F(OutputFileTest, HalfWrittenIsRemovedWhereASignalEndsTheProgram) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const pid_t child = fork();
    if (child == 0) {
      const HalfWritten file(In("file")), folder(In("folder"));
      if (!folder.MakeFolder().ok() || !WriteOutput(In("file"), "half").ok()) _exit(1);
      fs::create_directories(In("folder") + "/a/b");
      if (!WriteOutput(In("folder") + "/a/b/c", "half").ok()) _exit(2);
      const pid_t grandchild = fork();  // has nothing to remove
      if (grandchild == 0) raise(signal);
      waitpid(grandchild, nullptr, 0);
      if (!fs::exists(In("file"))) _exit(3);
      raise(signal);
      _exit(4);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << status;
    EXPECT_EQ(count(), 0);
  }
}

TEST_F(OutputFileTest, HalfWrittenIsNeverWhatSomebodyElsePutThere) {
  ASSERT_EQ(mkfifo(In("pipe").c_str(), 0600), 0);
  { const HalfWritten half(In("pipe")); }
  EXPECT_TRUE(fs::is_fifo(In("pipe")));
  const std::string name = HalfWritten::NameFor(In("pipe"));
  std::ofstream(name) << "taken";
  EXPECT_NE(HalfWritten::NameFor(In("pipe")), name);
  HalfWritten folder(In("new"));
  ASSERT_TRUE(folder.MakeFolder().ok());
  EXPECT_FALSE(folder.Become(In("pipe")).ok());
  EXPECT_TRUE(folder.Become(In("whole")).ok());
  EXPECT_TRUE(fs::is_directory(In("whole")));
}

TEST(ReadExactlyTest, GoesOnOverPiecesAndSaysWhereThereIsLess) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_TRUE(WriteAll(ends[1], "ab"));
  ASSERT_TRUE(WriteAll(ends[1], "cde"));
  close(ends[1]);
  std::string bytes(4, '?');
  EXPECT_TRUE(ReadExactly(ends[0], bytes.data(), bytes.size()));
  EXPECT_EQ(bytes, "abcd");
  EXPECT_FALSE(ReadExactly(ends[0], bytes.data(), 2));
  close(ends[0]);
}

}  // namespace
}  // namespace gpumem
