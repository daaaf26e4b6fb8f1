// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

// `--example NAME`: the traces that come with gpumemshim. They are of an earlier version, so that answers about them
// are also a test of what later ones still read.

#include <gmock/gmock.h>

#include <filesystem>
#include <set>
#include <string>

#include "cli/commands.h"
#include "cli/parsed_command.h"
#include "ledger/load/example_traces.h"
#include "program.h"

namespace gpumem {
namespace {

using ::testing::HasSubstr;
using testing::MakeFolder;
using ::testing::Not;
using testing::RunGpumem;
using ::testing::StartsWith;

std::string Answer(const std::vector<std::string>& arguments) {
  const testing::Outcome outcome = RunGpumem(arguments, MakeFolder());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return outcome.out;
}

TEST(ExamplesTest, EachShowsWhatItIsFor) {
  EXPECT_THAT(Answer({"report", "--example", "oom"}), HasSubstr("OUT OF MEMORY PyTorch asked for 2 GiB"));
  EXPECT_THAT(Answer({"leaks", "--example", "leak"}),
              HasSubstr("history[*].grad_fn (list of 30), a global of leak.py"));
  EXPECT_THAT(Answer({"report", "--example", "fragmentation"}), HasSubstr("needed a larger segment 50 times"));
  const std::string ranks = Answer({"ranks", "--example", "ranks"});
  EXPECT_THAT(ranks, StartsWith("rank 3 holds "));
  EXPECT_THAT(ranks, HasSubstr("gpumemshim diff --example ranks/rank1 --example ranks/rank3"));
  EXPECT_THAT(Answer({"report", "--example", "train"}), Not(HasSubstr("GROWING")));
}

TEST(ExamplesTest, AllAreThereAndNoOther) {
  std::set<std::string> named, files;
  std::filesystem::path folder;
  for (const ExampleTrace& each : ExampleTraces()) {
    const absl::StatusOr<std::string> path = FindExample(each.name);
    ASSERT_TRUE(path.ok()) << path.status();
    named.insert(*path);
    folder = std::filesystem::path(*path).parent_path();
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.insert(entry.path().string());
  EXPECT_EQ(files, named);
}

TEST(ExamplesTest, CommandsThatReadTracesTakeThem) {
  size_t taking = 0;
  for (const auto& command : AllCommands()) {
    const ParsedCommand parsed(command.get(), {"--example"});
    EXPECT_EQ(parsed.wants_examples(), command->takes_traces()) << command->name();
    taking += command->takes_traces() ? 1 : 0;
  }
  EXPECT_GE(taking, 25u);
  EXPECT_THAT(Answer({"leaks", "--example"}), HasSubstr("gpumemshim leaks --example oom\n"));
  EXPECT_THAT(Answer({"report", "peak", "leaks", "--example"}), HasSubstr("--example oom\n"));
  EXPECT_THAT(Answer({"leaks", "--help"}), HasSubstr("--example NAME"));
  EXPECT_THAT(Answer({"run", "--help"}), Not(HasSubstr("--example")));
}

TEST(ExamplesTest, AnExampleStandsWhereItIsNamed) {
  const std::string there = Answer({"diff", "--example", "train", "--example=leak"});
  EXPECT_LT(there.find("train.gmtrace"), there.find("leak.gmtrace"));
  const std::string back = Answer({"diff", "--example", "leak", "--example", "train"});
  EXPECT_LT(back.find("leak.gmtrace"), back.find("train.gmtrace"));
  EXPECT_THAT(Answer({"at", "peak", "--example", "oom"}), HasSubstr("oom  process"));
  EXPECT_THAT(Answer({"at", "--example", "oom", "peak"}), HasSubstr("oom  process"));
  EXPECT_THAT(Answer({"at", "--example", "leak", "step", "3"}), HasSubstr("leak  process"));
  const std::string same = Answer({"export", "--example", "leak", "collapsed"});
  EXPECT_EQ(Answer({"export", "collapsed", "--example", "leak"}), same);
  EXPECT_THAT(Answer({"report", "peak", "sizes", "--example", "oom"}), HasSubstr("Peak allocated on GPU 0"));
}

TEST(ExamplesTest, CommandsThatAnswersNameTakeTheExampleToo) {
  EXPECT_THAT(Answer({"report", "--example", "oom"}), HasSubstr("gpumemshim report --full --example oom"));
  EXPECT_THAT(Answer({"peak", "--example", "ranks/rank3"}), HasSubstr("train_ranks  process"));
  EXPECT_THAT(TraceArgument("/a b/run.gmtrace"), HasSubstr("'"));
}

TEST(ExamplesTest, FilesAboutThemAreWrittenHere) {
  const std::string folder = MakeFolder();
  EXPECT_EQ(RunGpumem({"html", "--example", "oom"}, folder).exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(std::filesystem::path(folder) / "oom.html"));
  EXPECT_EQ(BesideTrace(*FindExample("ranks/rank0")), "rank0.gmtrace");
  EXPECT_EQ(BesideTrace("/runs/a.gmtrace"), "/runs/a.gmtrace");
}

TEST(ExamplesTest, WhoHasNoTraceIsToldOfThem) {
  const std::string folder = MakeFolder();
  EXPECT_THAT(RunGpumem({"report"}, folder).err, HasSubstr("To see an answer before: gpumemshim report --example oom"));
  // A snapshot of PyTorch, which is no *.gmtrace: a pickle of {"segments": [], "device_traces": []}.
  testing::WriteFile(folder + "/my snapshot.pickle", std::string("\x80\x04}(\x8c\x08segments]\x8c\x0d"
                                                                 "device_traces]u.",
                                                                 33));
  const testing::Outcome named = RunGpumem({"report"}, folder);
  EXPECT_EQ(named.exit_code, 3);
  EXPECT_THAT(named.err, HasSubstr("To read what is here: gpumemshim report 'my snapshot.pickle'"));
}

TEST(ExamplesTest, AnUnknownOneIsAUsageError) {
  const testing::Outcome outcome = RunGpumem({"report", "--example", "run.gmtrace"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("unknown example \"run.gmtrace\" (one of oom/leak/fragmentation/ranks/train)"));
  EXPECT_THAT(RunGpumem({"report", "--example", "x", "--lang", "zh"}).err, HasSubstr("没有名为“x”的示例"));
  EXPECT_THAT(RunGpumem({"leaks", "--example", "--lang", "zh"}).out, HasSubstr("保留了每一步计算图的训练"));
  for (const char* name : {"--example=", "--example=ranks/rank9", "--example=ranks/", "--example=../traces/oom"})
    EXPECT_EQ(RunGpumem({"report", name}).exit_code, 2) << name;
}

}  // namespace
}  // namespace gpumem
