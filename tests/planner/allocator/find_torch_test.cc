// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/allocator/find_torch.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "ledger/load/own_trace.h"

namespace gpumem::plan {
namespace {

using ::testing::HasSubstr;

// A program that stands for a Python: whatever it is asked, it prints this.
std::string FakePython(const std::string& name, const std::string& says) {
  const std::string path = ::testing::TempDir() + "/" + name;
  std::ofstream(path) << "#!/bin/sh\necho noise\n" << (says.empty() ? "exit 1" : "echo " + says) << "\n";
  chmod(path.c_str(), 0755);
  return path;
}

class FindTorchTest : public ::testing::Test {
 protected:
  FindTorchTest() {
    unsetenv("GPUMEMSHIM_INTERPRETER");
    unsetenv("VIRTUAL_ENV");
    setenv("PATH", "/nowhere:/bin", 1);  // of sh; no python3 with torch is to be found by chance
    std::ofstream(trace_) << "a trace";
    chmod(trace_.c_str(), 0600);
  }
  const std::string trace_ = ::testing::TempDir() + "/find_torch.gmtrace";
};

TEST_F(FindTorchTest, TheOneThatIsNamed) {
  const std::string python = FakePython("python_named", "gpumemshim 2.6.0+cu124 12.4");
  const absl::StatusOr<TorchPython> found = FindTorch(python, "", {});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->python, python);
  EXPECT_EQ(found->version, "2.6.0+cu124");
}

TEST_F(FindTorchTest, ANamedOneWithoutItIsAMistake) {
  const absl::Status none = FindTorch(FakePython("python_none", ""), "", {}).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(none.message(), HasSubstr("--torch"));
  EXPECT_THAT(FindTorch(FakePython("python_cpu", "gpumemshim 2.6.0+cpu None"), "", {}).status().message(),
              HasSubstr("without CUDA"));
  EXPECT_FALSE(FindTorch("/nowhere/python", "", {}).ok());
}

TEST_F(FindTorchTest, TheRecordedProgramsOwn) {
  FakePython("python_recorded", "gpumemshim 2.11.0 13.0");
  ProcessInfo process;
  process.working_directory = ::testing::TempDir();
  process.command_line = {"./python_recorded", "train.py"};
  process.boot_id = BootId();
  ASSERT_EQ(process.boot_id.size(), 16u);
  const absl::StatusOr<TorchPython> found = FindTorch("", trace_, process);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->version, "2.11.0");
}

TEST_F(FindTorchTest, ATraceFromElsewhereDoesNotSayWhatIsRun) {
  const std::string python = FakePython("python_sent", "gpumemshim 2.11.0 13.0");
  ProcessInfo process;
  process.working_directory = ::testing::TempDir();
  process.command_line = {"./python_sent", "train.py"};
  process.executable = python;
  for (const std::string& boot_id : {std::string(), std::string(16, '\0'), std::string("guess")}) {
    process.boot_id = boot_id;
    const absl::StatusOr<TorchPython> found = FindTorch("", trace_, process);
    EXPECT_FALSE(found.ok() && found->version == "2.11.0");
  }
}

TEST_F(FindTorchTest, NorDoesOneThatOthersMayWrite) {
  const std::string python = FakePython("python_shared", "gpumemshim 2.11.0 13.0");
  ProcessInfo process;
  process.executable = python;
  process.boot_id = BootId();
  chmod(trace_.c_str(), 0620);
  const absl::StatusOr<TorchPython> found = FindTorch("", trace_, process);
  EXPECT_FALSE(found.ok() && found->version == "2.11.0");
}

TEST_F(FindTorchTest, NorIsWhatOthersMayWrite) {
  const std::string python = FakePython("python_open", "gpumemshim 2.11.0 13.0");
  chmod(python.c_str(), 0777);
  ProcessInfo process;
  process.executable = python;
  process.boot_id = BootId();
  const absl::StatusOr<TorchPython> found = FindTorch("", trace_, process);
  EXPECT_FALSE(found.ok() && found->version == "2.11.0");
}

TEST_F(FindTorchTest, NothingThatIsNoPythonIsStarted) {
  ProcessInfo process;
  process.working_directory = ::testing::TempDir();
  FakePython("rm_everything", "gpumemshim 2.11.0 13.0");
  process.command_line = {"./rm_everything"};
  process.executable = ::testing::TempDir() + "/rm_everything";
  process.boot_id = BootId();
  const absl::StatusOr<TorchPython> found = FindTorch("", trace_, process);
  EXPECT_FALSE(found.ok() && found->version == "2.11.0");
}

TEST_F(FindTorchTest, SaysTheWayOut) {
  const absl::StatusOr<TorchPython> found = FindTorch("", "", {});
  if (found.ok()) GTEST_SKIP() << "skipped: python3 of /bin has PyTorch";
  EXPECT_EQ(found.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(found.status().message(), HasSubstr("--torch ~/.venv/bin/python"));
}

}  // namespace
}  // namespace gpumem::plan
