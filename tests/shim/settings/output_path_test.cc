// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/settings/output_path.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>

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

}  // namespace
}  // namespace gpumemshim::control
