// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/launch/process_result.h"

#include <gmock/gmock.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "testing/mutated_json.h"

namespace gpumem::plan {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;
using Reason = ProcessResult::Reason;

class ProcessResultTest : public ::testing::Test {
 protected:
  ProcessResultTest() : folder_(::testing::TempDir() + "plan_results_XXXXXX") {
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
  }
  ~ProcessResultTest() override { fs::remove_all(folder_); }

  void Put(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << text;
  }
  std::vector<ProcessResult> Read() const { return ReadProcessResults(folder_); }
  // Of one file; none where it was left out.
  std::vector<ProcessResult> ReadOne(const std::string& text) {
    Put("1.json", text);
    return Read();
  }

  std::string folder_;
};

TEST_F(ProcessResultTest, ReadsWhatTheInjectedScriptWrites) {
  Put("77.json",
      R"json({"pid": 77, "reason": "stable", "steps": 4, "last_growth": 2, "peaks": [[1, 2]], "torch": "2.11.0+cu130",
          "rank": 1, "pinned": {"n.item()": 8}, "event_queries": 12,
          "changes": [{"name": "offload", "applied": 3, "of": 4, "why": "small", "bytes": 5, "other_results": "rounded"},
                      {"name": "look", "batch": ["--batch", 16]}, {"name": "look", "batch": null}],
          "highest": [5, 6], "ended_ns": 99, "cuda_ns": 7, "first_step_ns": 8, "other_values": 3, "unknown_true": 4, "unknown_false": 6,
          "unknown_values": 12, "drawn_reads": 2, "unknown_counts": 8, "drawn_counts": 9, "steps_differ": true,
          "failed_at": "/x/train.py:12", "failed_by": "RuntimeError: no", "operator_refused": true, "other_integers": 1, "values_failed": "older",
          "workspaces": {"cuDNN": {"set": 1, "measured": 2, "similar": 3, "bound": 4, "nothing": 5, "without_bound": 6,
                                   "largest": 7, "largest_bound": 8}, "cuFFT": {}},
          "context": {"known": "measured", "bytes": 9}})json");
  const std::vector<ProcessResult> results = Read();
  ASSERT_EQ(results.size(), 1u);
  const ProcessResult& result = results[0];
  EXPECT_EQ(result.pid, 77);
  EXPECT_EQ(result.rank, 1);
  EXPECT_EQ(result.reason, Reason::kStable);
  EXPECT_EQ(result.steps, 4u);
  EXPECT_EQ(result.last_growth, 2u);
  EXPECT_EQ(result.torch, "2.11.0+cu130");
  EXPECT_THAT(result.pinned, UnorderedElementsAre(Pair("n.item()", 8u)));
  EXPECT_EQ(result.event_queries, 12u);
  ASSERT_EQ(result.changes.size(), 3u);
  EXPECT_EQ(result.changes[0].name, "offload");
  EXPECT_EQ(result.changes[0].applied, 3u);
  EXPECT_EQ(result.changes[0].of, 4u);
  EXPECT_EQ(result.changes[0].why, "small");
  EXPECT_EQ(result.changes[0].moved, 5u);
  EXPECT_EQ(result.changes[0].other_results, "rounded");
  EXPECT_EQ(result.changes[1].batch_flag, "--batch");
  EXPECT_EQ(result.changes[1].batch, 16);
  EXPECT_EQ(result.changes[2].batch, 0);
  EXPECT_EQ(result.allocated_in_steps, 5u);
  EXPECT_EQ(result.ended_ns, 99u);
  EXPECT_EQ(result.cuda_ns, 7u);
  EXPECT_EQ(result.first_step_ns, 8u);
  EXPECT_EQ(result.other_values, 3u);
  EXPECT_EQ(result.unknown_true, 4u);
  EXPECT_EQ(result.unknown_false, 6u);
  EXPECT_THAT((std::vector{result.unknown_values, result.drawn_reads, result.unknown_counts, result.drawn_counts}),
              ElementsAre(12, 2, 8, 9));
  EXPECT_TRUE(result.steps_differ);
  EXPECT_EQ(result.failed_at, "/x/train.py:12");
  EXPECT_EQ(result.failed_by, "RuntimeError: no");
  EXPECT_TRUE(result.operator_refused);
  EXPECT_EQ(result.reserved_in_steps, 6u);
  EXPECT_EQ(result.other_integers, 1u);
  EXPECT_EQ(result.values_failed, "older");
  ASSERT_EQ(result.workspaces.size(), 2u);
  const WorkspaceUse& use = result.workspaces[0];
  EXPECT_EQ(use.library, "cuDNN");
  EXPECT_THAT((std::vector{use.set, use.measured, use.similar, use.bounded, use.unknown, use.without_bound, use.largest,
                           use.largest_bound}),
              ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_EQ(result.workspaces[1].library, "cuFFT");
  EXPECT_EQ(result.context.bytes, 9u);
  EXPECT_EQ(result.context.known, "measured");
  EXPECT_THAT(result.built_for, IsEmpty());
}

TEST_F(ProcessResultTest, ReadsWhereNumbersThatNobodyComputedDecide) {
  Put("77.json",
      R"json({"pid": 77, "reason": "ended", "compared": {"train.py:12#34": 5}, "compared_open": "train.py:13",
                         "routed": 10, "scaler_reads": 11, "table_refused": true})json");
  const std::vector<ProcessResult> results = Read();
  ASSERT_EQ(results.size(), 1u);
  EXPECT_THAT(results[0].compared, UnorderedElementsAre(Pair("train.py:12#34", 5u)));
  EXPECT_EQ(results[0].compared_open, "train.py:13");
  EXPECT_EQ(results[0].routed, 10u);
  EXPECT_EQ(results[0].scaler_reads, 11u);
  EXPECT_TRUE(results[0].table_refused);
}

TEST_F(ProcessResultTest, KnowsEveryReason) {
  const std::pair<const char*, Reason> reasons[] = {{"ended", Reason::kEnded},
                                                    {"steps", Reason::kSteps},
                                                    {"stable", Reason::kStable},
                                                    {"capability", Reason::kCapability},
                                                    {"of a later version", Reason::kEnded}};
  for (const auto& [text, reason] : reasons) {
    const auto results = ReadOne(std::string(R"({"reason": ")") + text + R"(", "built_for": ["sm_80", "sm_90"]})");
    ASSERT_EQ(results.size(), 1u) << text;
    EXPECT_EQ(results[0].reason, reason) << text;
    EXPECT_THAT(results[0].built_for, ElementsAre("sm_80", "sm_90"));
  }
}

TEST_F(ProcessResultTest, WhateverIsInAPlaceLeavesTheFileOutOrIsWithinBounds) {
  testing::EachMutation(
      R"json({"pid": 7, "rank": 1, "reason": "stable", "steps": 4, "built_for": ["sm_80"], "highest": [5, 6],
              "changes": [{"name": "look", "applied": 3, "batch": ["--batch", 16]}], "pinned": {"n.item()": 8},
              "workspaces": {"cuDNN": {"set": 1}}, "context": {"known": "measured", "bytes": 9}})json",
      [&](const std::string& text) {
        const absl::StatusOr<ProcessResult> result = ParseProcessResult(text);
        EXPECT_TRUE(!result.ok() || std::min(result->pid, result->rank) >= 0) << text;
      });
}

TEST_F(ProcessResultTest, SortsByRankThenProcess) {
  Put("1.json", R"({"pid": 1, "rank": 2})");
  Put("2.json", R"({"pid": 20, "rank": 0})");
  Put("3.json", R"({"pid": 3, "rank": 0})");
  std::vector<int> pids;
  for (const ProcessResult& result : Read()) pids.push_back(result.pid);
  EXPECT_THAT(pids, ElementsAre(3, 20, 1));
}

TEST_F(ProcessResultTest, LeavesOutWhatCannotBeRead) {
  Put("good.json", R"({"pid": 5})");
  Put("half.json", R"({"pid": 6, "ste)");
  Put("empty.json", "");
  Put("list.json", "[1]");
  Put("number.json", "7");
  Put("type.json", R"({"pid": "seven"})");
  Put("types.json", R"({"pid": 7, "pinned": {"x": "often"}})");
  Put("workspaces.json", R"({"pid": 7, "workspaces": {"cuDNN": {"set": -1}}})");
  Put("context.json", R"({"pid": 7, "context": {"known": 3}})");
  Put("unfinished.json.part", R"({"pid": 8})");
  Put("injected_script.py", "pass");
  fs::create_directory(folder_ + "/folder.json");
  const std::vector<ProcessResult> results = Read();
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].pid, 5);
}

TEST_F(ProcessResultTest, ANumberThatIsNoneLeavesItsFileOut) {
  for (const char* text :
       {R"({"steps": -1})", R"({"steps": 1e300})", R"({"steps": 1.5})", R"({"steps": 18446744073709551616})",
        R"({"pid": 4294967297})", R"({"pid": -1})", R"({"rank": 1e10})", R"({"pid": true})", R"({"pinned": {"x": -1}})",
        R"({"changes": [{"applied": null}]})", R"({"changes": 3})", R"({"last_growth": [1]})", R"({"torch": 2.4})",
        R"({"built_for": "sm_80"})"})
    EXPECT_THAT(ReadOne(text), IsEmpty()) << text;
  EXPECT_EQ(ReadOne(R"({"steps": 18446744073709551615})").size(), 1u);
}

TEST_F(ProcessResultTest, ANamedPipeDoesNotHold) {
  ASSERT_EQ(mkfifo((folder_ + "/1.json").c_str(), 0600), 0);
  ASSERT_EQ(mkfifo((folder_ + "/1.stack").c_str(), 0600), 0);
  EXPECT_THAT(Read(), IsEmpty());
  EXPECT_EQ(ReadStuckStacks(folder_), "");
}

TEST_F(ProcessResultTest, AFolderThatIsNotThereSaysNothing) {
  EXPECT_THAT(ReadProcessResults(folder_ + "/none"), IsEmpty());
  EXPECT_EQ(ReadStuckStacks(folder_ + "/none"), "");
}

TEST_F(ProcessResultTest, StacksOfAllProcessesAreOneText) {
  Put("2.stack", "two");
  Put("1.stack", "one,");
  Put("3.json", "{}");
  EXPECT_EQ(ReadStuckStacks(folder_), "one,two");
}

// As faulthandler.dump_traceback_later writes it: the main thread last, each innermost first.
constexpr char kThreads[] = R"(Timeout (0:00:03)!
Thread 0x00007f2ac57fa6c0 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 331 in wait
  File "/home/user/loader.py", line 8 in refill
  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap

Thread 0x00007f2ad1c4b080 (most recent call first):
  File "/venv/lib/python3.11/site-packages/torch/_tensor.py", line 1050 in __bool__
  File "/home/user/my job/search.py", line 12 in converge
  File "/home/user/my job/train.py", line 40 in <module>
)";

TEST(StuckAtTest, IsTheMainThreadsInnermostLineOfTheProgram) {
  EXPECT_EQ(StuckAt(kThreads), "/home/user/my job/search.py:12 in converge");
}

TEST(StuckAtTest, WithLibrariesAloneItIsTheInnermostLine) {
  EXPECT_EQ(StuckAt("Thread 0x1 (most recent call first):\n"
                    "  File \"/usr/lib/python3/dist-packages/numpy/core.py\", line 3 in dot\n"
                    "  File \"<frozen runpy>\", line 88 in _run_code\n"),
            "/usr/lib/python3/dist-packages/numpy/core.py:3 in dot");
}

TEST(StuckAtTest, AThreadWithoutFramesHasNoPlace) {
  EXPECT_EQ(StuckAt("Thread 0x1 (most recent call first):\n  File \"a.py\", line 1 in f\n"
                    "Thread 0x2 (most recent call first):\n  <no Python frame>\n"),
            "");
}

TEST(StuckAtTest, KnowsTheCurrentThreadsHeading) {
  EXPECT_EQ(StuckAt("Fatal Python error: Aborted\n\nCurrent thread 0x1 [python] (most recent call first):\n"
                    "  File \"a.py\", line 1\n"),
            "a.py:1");
}

TEST(StuckAtTest, ReadsAnyText) {
  for (const char* text : {"", "\n", "Thread ", "File \"a.py\", line 3 in f", "Thread 0x1\n\", line 3 File \"",
                           "Thread 0x1\nFile \"", "Thread 0x1\nFile \"\", line "}) {
    StuckAt(text);
  }
  EXPECT_EQ(StuckAt("no thread\n  File \"a.py\", line 3 in f"), "");
  EXPECT_EQ(StuckAt("Thread 0x1\n\", line 3 File \"a.py\", line 4 in g"), "a.py:4 in g");
}

}  // namespace
}  // namespace gpumem::plan
