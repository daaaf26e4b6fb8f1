// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/settings/output_path.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace gpumemshim::control {
namespace {

class OutputPathTest : public testing::Test {
 protected:
  OutputPathTest() : facts_(std::make_unique<ProcessFacts>()) {
    facts_->pid = 123;
    facts_->rank = -1;
    std::strcpy(facts_->program, "train");
    std::strcpy(facts_->hostname, "node7");
    std::strcpy(facts_->working_directory, "/nowhere/run");
  }
  std::string Path(const char* pattern) {
    char out[512];
    return OutputPath(pattern, *facts_, out, sizeof out) ? out : "(too long)";
  }
  std::unique_ptr<ProcessFacts> facts_;
};

TEST_F(OutputPathTest, DefaultName) {
  EXPECT_EQ(Path(""), "/nowhere/run/gpumemshim.train.123.gmtrace");
  facts_->rank = 4;
  EXPECT_EQ(Path(""), "/nowhere/run/gpumemshim.train.node7.123.r4.gmtrace");
  std::strcpy(facts_->job, "98765");
  EXPECT_EQ(Path(""), "/nowhere/run/gpumemshim.train.98765.node7.123.r4.gmtrace");
  facts_->hostname[0] = '\0';
  EXPECT_EQ(Path(""), "/nowhere/run/gpumemshim.train.98765.123.r4.gmtrace");
}

TEST_F(OutputPathTest, JobAndHostAreShortAndPlain) {
  facts_->rank = 0;
  std::strcpy(facts_->hostname, "node7.cluster.example.org");
  std::strcpy(facts_->job, "2e3e8bb6-3725-4d44-8235-ebd9b0de5668");
  EXPECT_EQ(Path(""), "/nowhere/run/gpumemshim.train.2e3e8bb6.node7.123.r0.gmtrace");
  std::strcpy(facts_->hostname, "a-pool-of-machines-x7f2-worker-37");
  std::strcpy(facts_->job, "../a b");
  EXPECT_EQ(Path(""), "/nowhere/run/gpumemshim.train.---a-b.s-x7f2-worker-37.123.r0.gmtrace");
  EXPECT_EQ(Path("%j"), "/nowhere/run/---a-b");
  facts_->rank = -1;  // one process: its name stays short
  EXPECT_EQ(Path(""), "/nowhere/run/gpumemshim.train.123.gmtrace");
}

TEST_F(OutputPathTest, Pattern) {
  EXPECT_EQ(Path("a-%p-%h-%r-%j-%n-%%-%x"), "/nowhere/run/a-123-node7-0-0-train-%-%x");
  EXPECT_EQ(Path("/tmp/x.gmtrace"), "/tmp/x.gmtrace");
}

TEST_F(OutputPathTest, DirectoryGetsTheDefaultName) {
  EXPECT_EQ(Path("/nowhere/%n/"), "/nowhere/train/gpumemshim.train.123.gmtrace");
  EXPECT_EQ(Path("/tmp"), "/tmp/gpumemshim.train.123.gmtrace");
}

TEST_F(OutputPathTest, TooLong) { EXPECT_EQ(Path(std::string(600, 'a').c_str()), "(too long)"); }

TEST_F(OutputPathTest, OtherPlaces) {
  char out[512];
  ASSERT_TRUE(FallbackPath(0, "/scratch", *facts_, out, sizeof out));
  EXPECT_STREQ(out, "/scratch/gpumemshim.train.123.gmtrace");
  ASSERT_TRUE(FallbackPath(1, "/scratch", *facts_, out, sizeof out));
  EXPECT_STREQ(out, "/tmp/gpumemshim.train.123.gmtrace");
  EXPECT_FALSE(FallbackPath(2, "/scratch", *facts_, out, sizeof out));
  ASSERT_TRUE(FallbackPath(0, "not/absolute", *facts_, out, sizeof out));
  EXPECT_STREQ(out, "/tmp/gpumemshim.train.123.gmtrace");
}

std::string NameOf(const char* executable, const std::vector<const char*>& arguments) {
  char out[80];
  ProgramName(executable, arguments.data(), arguments.size(), out, sizeof out);
  return out;
}

TEST(ProgramName, PythonScript) {
  EXPECT_EQ(NameOf("/usr/bin/python3.11", {"python", "scripts/train.py", "--lr", "1"}), "train");
  EXPECT_EQ(NameOf("/usr/bin/python3.11", {"python", "-u", "-Wignore", "-X", "dev", "-OO", "train.py"}), "train");
  EXPECT_EQ(NameOf("/usr/bin/python3.11", {"python", "-W", "ignore", "/usr/bin/torchrun", "x.py"}), "torchrun");
  EXPECT_EQ(NameOf("/usr/bin/python3.11", {"python", "--", "train.py"}), "train");
}

TEST(ProgramName, PythonModule) {
  EXPECT_EQ(NameOf("/usr/bin/python3.11", {"python", "-m", "torch.distributed.run"}), "torch.distributed.run");
  EXPECT_EQ(NameOf("/usr/bin/python3.11", {"python", "-Im", "pkg.main", "-c"}), "pkg.main");
  EXPECT_EQ(NameOf("/usr/bin/python3.11", {"python", "-mpkg"}), "pkg");
}

TEST(ProgramName, PythonCommandAndPrompt) {
  EXPECT_EQ(NameOf("/usr/bin/python3.11", {"python", "-c", "import torch"}), "python-c");
  EXPECT_EQ(NameOf("/usr/bin/python3.11", {"python", "-uc", "import torch"}), "python-c");
  EXPECT_EQ(NameOf("/usr/bin/python3.11", {"python"}), "python");
  EXPECT_EQ(NameOf("/usr/bin/python3.11", {"python", "-"}), "python");
}

TEST(ProgramName, ChildrenOfMultiprocessing) {
  const auto started = [](const std::vector<const char*>& arguments) {
    return StartedByMultiprocessing(arguments.data(), arguments.size());
  };
  EXPECT_TRUE(started({"/opt/venv/bin/python", "-c", "from multiprocessing.spawn import spawn_main; spawn_main(1)"}));
  EXPECT_TRUE(started({"python3", "-E", "-c", "from multiprocessing.forkserver import main; main(3, 4)"}));
  EXPECT_FALSE(started({"python", "-c", "import multiprocessing"}));
  EXPECT_FALSE(started({"python", "-c"}));
  EXPECT_FALSE(started({"python", "train.py", "-c", "from multiprocessing.spawn import spawn_main"}));
  EXPECT_FALSE(started({"cat", "-c", "from multiprocessing.spawn import spawn_main"}));
  EXPECT_FALSE(started({}));
}

TEST(ProgramName, OtherExecutables) {
  EXPECT_EQ(NameOf("/opt/bench/alloc.bin", {"./alloc.bin", "3"}), "alloc.bin");
  EXPECT_EQ(NameOf("", {"./server"}), "server");
  EXPECT_EQ(NameOf("", {}), "program");
}

TEST(ProgramName, PortableAndBounded) {
  EXPECT_EQ(NameOf("/usr/bin/python3", {"python", "a b;c/d e'f.py"}), "d_e_f");
  EXPECT_EQ(NameOf(("/" + std::string(200, 'x')).c_str(), {"x"}).size(), 64u);
}

}  // namespace

}  // namespace gpumemshim::control
