// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include "simcuda/base/workspace_table.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "simcuda/base/environment.h"

namespace simcuda {
namespace {

const WorkspaceKey kAsked{"cuDNN", "convolution_forward", "f32 x=1", "NVIDIA H100", "91900", 90};

std::string Row(const std::string& bytes, const std::string& device = "NVIDIA H100",
                const std::string& version = "91900", const std::string& capability = "9.0",
                const std::string& origin = "measured") {
  return "cuDNN\tconvolution_forward\tf32 x=1\t" + bytes + '\t' + device + '\t' + capability + '\t' + version + '\t' +
         origin + "\t580.1\t13.0\t2.11.0\t2026-01-01";
}

FoundSize FoundIn(const std::vector<std::string>& rows) {
  WorkspaceTable table;
  for (const std::string& row : rows) EXPECT_TRUE(table.Add(row)) << row;
  return table.Find(kAsked);
}

TEST(WorkspaceTable, ARowOfThisDeviceAndVersionIsMeasured) {
  const FoundSize found = FoundIn({Row("9", "NVIDIA H200"), Row("7"), Row("8", "NVIDIA H100", "91800")});
  EXPECT_EQ(found.known, Known::kMeasured);
  EXPECT_EQ(found.bytes, 7u);
}

TEST(WorkspaceTable, ZeroIsAMeasuredSize) { EXPECT_EQ(FoundIn({Row("0")}).known, Known::kMeasured); }

TEST(WorkspaceTable, OfOthersOfTheCapabilityTheLargestIsSimilar) {
  const FoundSize found = FoundIn({Row("9", "NVIDIA H200"), Row("8", "NVIDIA H100", "91800")});
  EXPECT_EQ(found.known, Known::kSimilar);
  EXPECT_EQ(found.bytes, 9u);
}

TEST(WorkspaceTable, AnotherCapabilityOrOperationIsNothing) {
  EXPECT_EQ(FoundIn({Row("9", "NVIDIA H100", "91900", "8.0")}).known, Known::kNothing);
  WorkspaceTable table;
  ASSERT_TRUE(table.Add(Row("9")));
  for (std::string WorkspaceKey::*member :
       {&WorkspaceKey::library, &WorkspaceKey::operation, &WorkspaceKey::parameters}) {
    WorkspaceKey other = kAsked;
    other.*member += "x";
    EXPECT_EQ(table.Find(other).known, Known::kNothing);
  }
}

// The one that comes with the libraries; no real device has the name of its rows.
TEST(WorkspaceTable, TheOneThatIsShippedIsWholeAndItsRowsAreSimilarOnes) {
  const std::filesystem::path test = std::filesystem::read_symlink("/proc/self/exe");
  std::ifstream file(test.parent_path().parent_path() / "lib" / "simcuda" / "workspaces.tsv");
  WorkspaceTable table;
  for (std::string line; std::getline(file, line);) EXPECT_TRUE(table.Add(line)) << line;
  EXPECT_GE(table.size(), 6u);
  const FoundSize found =
      table.Find({"cuDNN", "convolution_forward",
                  "f32 x=1,32,64,64 w=64,32,3,3 padding=1,1 stride=1,1 dilation=1,1 nchw", "Tesla T4", "91900", 75});
  EXPECT_EQ(found.known, Known::kSimilar);
  EXPECT_EQ(found.bytes, 205056u);
}

TEST(WorkspaceTable, RefusesWhatWasNotMeasuredOrIsNotWhole) {
  WorkspaceTable table;
  EXPECT_FALSE(table.Add(Row("9", "NVIDIA H100", "91900", "9.0", "simulated")));
  EXPECT_FALSE(table.Add(Row("9", "NVIDIA H100", "91900", "9.0", "")));
  EXPECT_FALSE(table.Add(Row("many")));
  EXPECT_FALSE(table.Add(Row("-1")));
  EXPECT_FALSE(table.Add(Row("9 MiB")));
  EXPECT_FALSE(table.Add(Row("9", "NVIDIA H100", "91900", "nine")));
  EXPECT_FALSE(table.Add("cuDNN\tconvolution_forward\tf32 x=1\t9"));
  EXPECT_EQ(table.size(), 0u);
  EXPECT_TRUE(table.Add(""));
  EXPECT_TRUE(table.Add("# a comment"));
  EXPECT_TRUE(table.Add("library\toperation\tparameters\tbytes"));
  EXPECT_EQ(table.size(), 0u);
}

class ContextSize : public testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "/workspaces." + std::to_string(getpid()) + ".tsv";
    std::ofstream(path_) << "CUDA\tcontext\t\t333000000\tA GPU\t9.0\t13.0\tmeasured\n"
                         << "CUDA\tmodule\t\t70000\tAnother GPU\t9.0\t13.0\tmeasured\n";
    setenv("SIMCUDA_WORKSPACE_TABLE", path_.c_str(), 1);
    setenv("SIMCUDA_NAME", "A GPU", 1);
    setenv("SIMCUDA_CUDA_VERSION", "13.0", 1);
  }
  void TearDown() override {
    for (const char* name :
         {"SIMCUDA_WORKSPACE_TABLE", "SIMCUDA_NAME", "SIMCUDA_CUDA_VERSION", "SIMCUDA_CTX_MB", "SIMCUDA_WORKSPACES"}) {
      unsetenv(name);
    }
    unlink(path_.c_str());
  }
  std::string path_;
};

TEST_F(ContextSize, IsTheMeasuredOne) {
  const Environment environment = ReadEnvironment();
  EXPECT_EQ(environment.context_bytes, 333000000u);
  EXPECT_EQ(environment.context_known, Known::kMeasured);
  EXPECT_EQ(environment.module_bytes, 70000u);
  EXPECT_EQ(environment.module_known, Known::kSimilar);
}

TEST_F(ContextSize, IsWhatASettingSays) {
  setenv("SIMCUDA_CTX_MB", "100", 1);
  EXPECT_EQ(ReadEnvironment().context_bytes, uint64_t{100} << 20);
  EXPECT_EQ(ReadEnvironment().context_known, Known::kSet);
}

TEST_F(ContextSize, IsAGuessWithoutARow) {
  setenv("SIMCUDA_WORKSPACES", "none", 1);
  EXPECT_EQ(ReadEnvironment().context_bytes, uint64_t{512} << 20);
  EXPECT_EQ(ReadEnvironment().context_known, Known::kNothing);
  setenv("SIMCUDA_WORKSPACES", "measured", 1);
  setenv("SIMCUDA_NAME", "A GPU of another kind", 1);
  setenv("SIMCUDA_CC", "80", 1);
  EXPECT_EQ(ReadEnvironment().context_known, Known::kNothing);
  unsetenv("SIMCUDA_CC");
}

}  // namespace
}  // namespace simcuda
