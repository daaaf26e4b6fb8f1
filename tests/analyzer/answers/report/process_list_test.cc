// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/report/process_list.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "render/draw.h"

namespace gpumem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// A process of one machine; `above` are the pids of its ancestors, whose start time is ten times their pid.
ListedProcess Process(const std::string& path, uint32_t pid, std::vector<uint32_t> above, uint64_t start = 0) {
  ListedProcess listed;
  listed.path = path;
  listed.process.program = "train";
  listed.process.hostname = "host7";
  listed.process.boot_id = "boot";
  listed.process.pid_namespace = 1;
  listed.process.pid = pid;
  listed.process.start_ticks = pid * 10;
  for (const uint32_t parent : above) listed.process.ancestors.push_back({parent, parent * 10, "torchrun"});
  listed.start_realtime_ns = start != 0 ? start : pid;
  listed.complete = true;
  return listed;
}

std::vector<std::string> Tree(std::vector<ListedProcess> processes) {
  LinkProcesses(&processes);
  std::vector<std::string> lines;
  for (const ListedProcess& process : processes)
    lines.push_back(std::string(static_cast<size_t>(process.depth), '-') + process.path);
  return lines;
}

TEST(ProcessList, ChildrenStandBehindTheirParent) {
  EXPECT_THAT(
      Tree({Process("c", 30, {20, 10, 1}), Process("b", 20, {10, 1}), Process("d", 40, {1}), Process("a", 10, {1})}),
      ElementsAre("a", "-b", "--c", "d"));
}

TEST(ProcessList, ProcessesBetweenNeedNoTrace) {
  EXPECT_THAT(Tree({Process("a", 10, {1}), Process("b", 20, {15, 12, 10, 1})}), ElementsAre("a", "-b"));
}

TEST(ProcessList, AnExecGoesOnBelow) {
  EXPECT_THAT(Tree({Process("second", 10, {1}, 7), Process("first", 10, {1}, 5), Process("child", 20, {10, 1}, 6)}),
              ElementsAre("first", "-child", "-second"));
}

// It ended without a word, but nothing killed it.
TEST(ProcessList, WhatExecReplacedWasNotKilled) {
  std::vector<ListedProcess> processes = {Process("first", 10, {1}, 5), Process("second", 10, {1}, 7)};
  for (ListedProcess& process : processes) {
    process.complete = false;
    process.end_unknown = true;
    process.state = Analysis::Process::kEnded;
  }
  LinkProcesses(&processes);
  EXPECT_TRUE(processes[0].replaced);
  EXPECT_FALSE(processes[1].replaced) << "nobody knows what ended it";
  TextStyle style;
  style.width = 200;
  const std::string text = ToText(ProcessListAnswer(processes, "runs"), style);
  EXPECT_THAT(text, HasSubstr("replaced by exec "));
  EXPECT_THAT(text, HasSubstr("killed, end unknown"));
}

TEST(ProcessList, ANumberUsedAgainIsAnotherProcess) {
  ListedProcess again = Process("b", 20, {10, 1});
  again.process.ancestors[0].start_ticks = 999;
  EXPECT_THAT(Tree({Process("a", 10, {1}), again}), ElementsAre("a", "b"));
}

TEST(ProcessList, OtherMachinesAndNamespacesAreApart) {
  ListedProcess elsewhere = Process("b", 20, {10, 1}), contained = Process("c", 30, {10, 1});
  elsewhere.process.boot_id = "other";
  contained.process.pid_namespace = 2;
  EXPECT_THAT(Tree({Process("a", 10, {1}), elsewhere, contained}), ElementsAre("a", "b", "c"));
}

TEST(ProcessList, SiblingsByRank) {
  std::vector<ListedProcess> ranks = {Process("r2", 11, {10}), Process("r0", 12, {10}), Process("r1", 13, {10})};
  ranks[0].process.rank = 2;
  ranks[1].process.rank = 0;
  ranks[2].process.rank = 1;
  EXPECT_THAT(Tree(ranks), ElementsAre("r0", "r1", "r2"));
}

TEST(ProcessList, ARingOfAncestorsLosesNobody) {
  std::vector<std::string> tree = Tree({Process("a", 10, {20}), Process("b", 20, {10}), Process("c", 30, {30})});
  std::for_each(tree.begin(), tree.end(), [](std::string& line) { line.erase(0, line.find_first_not_of('-')); });
  EXPECT_THAT(tree, ::testing::UnorderedElementsAre("a", "b", "c"));
}

TEST(ProcessList, SaysWhoHadTheMost) {
  std::vector<ListedProcess> processes = {Process("runs/a.gmtrace", 10, {5, 1}), Process("runs/b.gmtrace", 20, {5, 1})};
  processes[1].device = 0;
  processes[1].peak_bytes = uint64_t{3} << 30;
  processes[1].complete = false;
  processes[1].state = Analysis::Process::kEnded;
  LinkProcesses(&processes);
  TextStyle style;
  style.width = 120;
  const std::string text = ToText(ProcessListAnswer(processes, "runs"), style);
  EXPECT_THAT(text, HasSubstr("2 traces in runs"));
  EXPECT_THAT(text, HasSubstr("started by torchrun 5, which used no CUDA"));
  EXPECT_THAT(text, HasSubstr("The most memory had process 20 (3 GiB). Next: gpumemshim report runs/b.gmtrace"));
  EXPECT_THAT(text, HasSubstr("killed"));
  EXPECT_THAT(text, Not(HasSubstr("by exec")));
}

TEST(ProcessList, Json) {
  std::vector<ListedProcess> processes = {Process("a", 10, {1}), Process("b", 20, {10, 1})};
  LinkProcesses(&processes);
  const auto answer = nlohmann::json::parse(ToJson(ProcessListAnswer(processes, "runs")));
  ASSERT_EQ(answer["processes"].size(), 2u);
  EXPECT_TRUE(answer["processes"][0]["parent_file"].is_null());
  EXPECT_EQ(answer["processes"][1]["parent_file"], "a");
  EXPECT_TRUE(answer["processes"][1]["device"].is_null());
  EXPECT_EQ(answer["processes"][1]["ancestors"][0]["pid"], 10);
}

}  // namespace
}  // namespace gpumem
