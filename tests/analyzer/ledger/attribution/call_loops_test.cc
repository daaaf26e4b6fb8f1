// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/attribution/call_loops.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "symbols/symbolizer.h"
#include "testing/trace_builder.h"

namespace gpumem {
namespace {

// Allocations by "main:6 handle:8", outermost first; how often each line was come back to, by its path.
class CallLoopsTest : public ::testing::Test {
 protected:
  void Allocate(const std::string& path, uint32_t thread = 1) { allocations_.push_back({path, thread}); }

  std::map<std::string, int> Run() {
    testing::TraceBuilder trace;
    std::map<std::string, uint64_t> ids;
    for (const auto& [path, thread] : allocations_) {
      std::vector<testing::PythonFrame> frames;
      for (const absl::string_view frame : absl::StrSplit(path, ' ')) {
        const std::vector<std::string> parts = absl::StrSplit(frame, ':');
        uint32_t line = 0;
        EXPECT_TRUE(absl::SimpleAtoi(parts[1], &line));
        frames.insert(frames.begin(), testing::PythonFrame{parts[0], "a.py", line});
      }
      ids[path] = trace.PythonStack(frames);
    }
    StackTable stacks;
    EXPECT_TRUE(stacks.Add(trace.definitions().SerializeAsString()).ok());
    Symbolizer symbolizer(&stacks, {});
    CallLoops loops(&stacks,
                    [&](uint32_t id) -> const std::vector<ResolvedFrame>& { return symbolizer.ResolveFrame(id); });
    std::map<std::string, int> further;
    for (const auto& [path, thread] : allocations_) {
      loops.Allocated(thread, ids[path], [&](const CallLoops::Place& place) {
        const std::vector<std::string> parts = absl::StrSplit(path, ' ');
        EXPECT_LT(place.depth, parts.size());
        std::string name;
        for (size_t i = 0; i <= place.depth; ++i) absl::StrAppend(&name, i == 0 ? "" : " ", parts[i]);
        ++further[name];
        is_in_pass_[name] = place.in_pass;
      });
    }
    return further;
  }

  std::vector<std::pair<std::string, uint32_t>> allocations_;
  std::map<std::string, bool> is_in_pass_;
};

using Further = std::map<std::string, int>;

TEST_F(CallLoopsTest, ALoopThatCallsAFunction) {
  Allocate("main:2 load:1");
  for (int i = 0; i < 4; ++i) {
    Allocate("main:6 handle:8");
    Allocate("main:6 handle:9 f:3");
  }
  EXPECT_EQ(Run(), (Further{{"main:6", 3}, {"main:6 handle:8", 3}}));
}

TEST_F(CallLoopsTest, WhatIsRepeatedBehindSomethingElseIsItsOwnLine) {
  for (int i = 0; i < 3; ++i) {
    Allocate("main:6 forward:1");
    for (int layer = 0; layer < 5; ++layer) Allocate("main:6 forward:2 layer:7");
  }
  const Further further = Run();
  EXPECT_EQ(further, (Further{{"main:6 forward:1", 2}, {"main:6 forward:2", 12}, {"main:6 forward:2 layer:7", 12}}));
  EXPECT_TRUE(is_in_pass_["main:6 forward:2 layer:7"]);
}

TEST_F(CallLoopsTest, LayersWithoutNamesAreNotAnotherPass) {
  for (int layer = 0; layer < 5; ++layer) Allocate("main:6 forward:2 layer:7");
  EXPECT_EQ(Run(), (Further{{"main:6 forward:2", 4}, {"main:6 forward:2 layer:7", 4}}));
}

TEST_F(CallLoopsTest, BranchesOfAFunctionAreNoLoop) {
  for (const char* line : {"5", "7", "9"}) Allocate(absl::StrCat("main:6 handle:", line));
  EXPECT_EQ(Run(), Further());
}

TEST_F(CallLoopsTest, ABranchThatWasTakenBeforeIsANewCall) {
  for (const char* line : {"7", "5", "7", "5"}) Allocate(absl::StrCat("main:6 handle:", line));
  EXPECT_EQ(Run(), (Further{{"main:6", 2}, {"main:6 handle:5", 2}}));
}

TEST_F(CallLoopsTest, TheLineAloneRepeats) {
  for (int i = 0; i < 3; ++i) Allocate("main:6");
  EXPECT_EQ(Run(), (Further{{"main:6", 2}}));
}

TEST_F(CallLoopsTest, EachThreadIsFollowedByItself) {
  for (int i = 0; i < 3; ++i) {
    Allocate("run:1 work:5", 1);
    Allocate("run:1 work:3", 2);
    Allocate("run:1 work:7", 1);
    Allocate("run:1 work:4", 2);
  }
  EXPECT_EQ(Run(), (Further{{"run:1", 4}, {"run:1 work:3", 2}, {"run:1 work:5", 2}}));
}

TEST_F(CallLoopsTest, ALoopThatFollowsAnother) {
  for (int i = 0; i < 3; ++i) Allocate("main:2 warm_up:1");
  for (int i = 0; i < 4; ++i) Allocate("main:6 handle:8");
  EXPECT_EQ(Run(), (Further{{"main:2", 2}, {"main:2 warm_up:1", 2}, {"main:6", 3}, {"main:6 handle:8", 3}}));
}

}  // namespace
}  // namespace gpumem
