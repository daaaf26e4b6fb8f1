// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Many processes want one name at once: each gets a file of its own, on file systems with and without nameless files.

#include "shim/writer/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace gpumemshim::writer {
namespace {

// As NFS and Lustre do: O_TMPFILE is refused. For this process and for good. False: the kernel has no such filters.
bool RefuseNamelessFiles() {
  constexpr unsigned kNameless = O_TMPFILE & ~O_DIRECTORY;
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, kNameless, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program = {sizeof filter / sizeof *filter, filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

class OutputFileTest : public testing::TestWithParam<bool> {
 protected:
  OutputFileTest() {
    char name[] = "/tmp/gpumemshim-output-file-XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~OutputFileTest() override { std::filesystem::remove_all(folder_); }

  // In a process of its own: with exit code 0 where the file holds what was written.
  int Create(const std::string& text) const {
    const pid_t child = fork();
    if (child != 0) return child;
    if (GetParam() && !RefuseNamelessFiles()) _exit(77);
    OutputFile file;
    const bool created =
        file.Create((folder_ + "/run.gmtrace").c_str(), reinterpret_cast<const uint8_t*>(text.data()), text.size());
    if (created) file.Finish();
    _exit(created ? 0 : 1);
  }
  std::set<std::string> Contents() const {
    std::set<std::string> contents;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      std::ifstream in(entry.path());
      contents.emplace(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
      EXPECT_EQ(entry.path().extension(), ".gmtrace");
    }
    return contents;
  }

  std::string folder_;
};

TEST_P(OutputFileTest, ProcessesThatWantOneNameGetAFileEach) {
  constexpr int kProcesses = 60;  // more than are numbered
  std::vector<pid_t> children;
  std::set<std::string> expected;
  for (int i = 0; i < kProcesses; ++i) {
    expected.insert("process " + std::to_string(i));
    children.push_back(Create("process " + std::to_string(i)));
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no seccomp filters here";
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(Contents(), expected) << "nothing was overwritten, nothing is empty";
}

INSTANTIATE_TEST_SUITE_P(FileSystems, OutputFileTest, testing::Bool(), [](const testing::TestParamInfo<bool>& each) {
  return each.param ? "WithoutNamelessFiles" : "WithNamelessFiles";
});

// Closes all numbers and opens files of its own, again and again. False: one of its files was closed under it.
bool CloseAndOpen(const std::string& name, std::chrono::microseconds pause, const std::atomic<bool>& stop) {
  bool kept = true;
  while (!stop) {
    std::this_thread::sleep_for(pause);
    close_range(STDERR_FILENO + 1, 1023, 0);
    int own[4];
    for (int& fd : own) fd = open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    for (const int fd : own) kept &= fcntl(fd, F_GETFD) >= 0;
  }
  return kept;
}

constexpr int kClosedUnderIt = 5;

// In a process of its own, since its descriptors are closed. 0 = well.
int AppendAmongClosing(const std::string& folder, std::chrono::microseconds pause) {
  const std::string name = folder + "/own";
  const uint8_t text[] = {'a'};
  std::atomic<bool> stop = false;
  bool kept = false;
  std::thread program([&] { kept = CloseAndOpen(name, pause, stop); });
  OutputFile file;
  // One that is closed at each of its tries is not made, and its writer tries again with the next batch.
  for (int i = 0; i < 100 || (!file.opened() && i < 1000); ++i)
    file.Create((folder + "/run.gmtrace").c_str(), text, sizeof text);
  int lost = 0;
  for (int i = 0; i < 20'000; ++i) lost += !file.Append(text, sizeof text);
  stop = true;
  program.join();
  if (file.gone()) return 2;
  if (!file.Append(text, sizeof text) || std::filesystem::file_size(file.path()) != file.bytes()) return 3;
  if (std::filesystem::file_size(name) != 0) return 4;
  if (pause.count() != 0 && lost != 0) return 6;  // a program that does nothing else may close it at each try
  return kept ? 0 : kClosedUnderIt;
}

class OutputFileAmongClosing : public testing::TestWithParam<std::chrono::microseconds> {};

TEST_P(OutputFileAmongClosing, StaysAndTouchesNoFileOfTheProgram) {
  constexpr int kTries = 5;
  int status = 0;
  for (int i = 0; i < kTries; ++i) {
    const std::string folder = testing::TempDir() + "/gpumemshim-closing-" + std::to_string(getpid());
    ASSERT_TRUE(std::filesystem::create_directory(folder));
    const pid_t child = fork();
    if (child == 0) _exit(AppendAmongClosing(folder, GetParam()));
    ASSERT_EQ(waitpid(child, &status, 0), child);
    std::filesystem::remove_all(folder);
    // A new file has the lowest number until it is raised. Between the look at whose that is and its closing a thread
    // may lose the processor, and no call of the system does both: of so many openings beside busy processors one hits.
    if (!WIFEXITED(status) || WEXITSTATUS(status) != kClosedUnderIt) break;
  }
  EXPECT_EQ(status, 0) << "exit code " << WEXITSTATUS(status);
}

INSTANTIATE_TEST_SUITE_P(Pauses, OutputFileAmongClosing,
                         testing::Values(std::chrono::microseconds{0}, std::chrono::microseconds{100}));

}  // namespace
}  // namespace gpumemshim::writer
