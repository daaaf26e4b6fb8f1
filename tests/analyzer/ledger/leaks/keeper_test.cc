// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/leaks/keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "absl/strings/str_split.h"

namespace gpumem {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// The statements found in a source whose lines with "<-" stand on the stacks.
std::vector<std::string> KeepersIn(const std::string& text, Kept kept = Kept::kGraph) {
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  std::vector<std::vector<UserFrame>> stacks;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].find("<-") != std::string::npos)
      stacks.push_back({{"/job/train.py", "main", static_cast<uint32_t>(i + 1), true}});
  }
  std::vector<std::string> found;
  for (const Keeper& keeper : FindKeepers(kept, stacks, [&](const std::string&) { return lines; }))
    found.push_back(keeper.code);
  return found;
}

TEST(FindKeepers, FindsSumsOfLosses) {
  EXPECT_THAT(KeepersIn("def main():\n  for x in data:\n    loss = f(model(x))  # <-\n    total += loss"),
              ElementsAre("total += loss"));
  EXPECT_THAT(KeepersIn("loss = f(model(x))  # <-\ntotal = total + loss * 2"), ElementsAre("total = total + loss * 2"));
  EXPECT_THAT(KeepersIn("total += f(model(x))  # <-"), ElementsAre("total += f(model(x))"));
}

TEST(FindKeepers, FindsContainers) {
  EXPECT_THAT(KeepersIn("out = model(x)  # <-\nouts.append(out)"), ElementsAre("outs.append(out)"));
  EXPECT_THAT(KeepersIn("out = model(x)  # <-\nself.cache[key] = out.mean()"),
              ElementsAre("self.cache[key] = out.mean()"));
  EXPECT_THAT(KeepersIn("a, b = model(x)  # <-\nc = b + 1\nouts.append((1, c))"), ElementsAre("outs.append((1, c))"));
}

TEST(FindKeepers, WhatCutsTheGraphHoldsNothing) {
  EXPECT_THAT(KeepersIn("loss = f(model(x))  # <-\ntotal += loss.item()\nlosses.append(loss.detach())\nn += len(loss)"),
              IsEmpty());
  EXPECT_THAT(KeepersIn("loss = f(model(x))  # <-\nvalue = loss.item()\ntotal += value"), IsEmpty());
  EXPECT_THAT(KeepersIn("loss = f(model(x))  # <-\nloss.backward()\nself.last = loss"), IsEmpty())
      << "one is kept, not more and more";
}

TEST(FindKeepers, OfMemoryAViewOrACopyWithoutGraphKeepsAll) {
  const char* const source = "features = model(x)  # <-\nheld.append(features.detach()[:1])\nn += features.item()";
  EXPECT_THAT(KeepersIn(source, Kept::kTensor), ElementsAre("held.append(features.detach()[:1])"));
  EXPECT_THAT(KeepersIn(source), IsEmpty());
}

// The stack of a call: `lines` of one file, from the outermost function on, each with its function.
std::vector<std::string> KeepersOfCall(const std::string& text, std::vector<std::pair<std::string, uint32_t>> frames) {
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  std::vector<UserFrame> stack;
  for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame)
    stack.push_back({"/job/train.py", frame->first, frame->second, true});
  std::vector<std::string> found;
  for (const Keeper& keeper : FindKeepers(Kept::kTensor, {stack}, [&](const std::string&) { return lines; }))
    found.push_back(keeper.code);
  return found;
}

TEST(FindKeepers, ACallThatReturnsANumberLeavesItsCallerNothing) {
  const std::string fold = "def fold():\n  t = engine.prepare(zeros())\n  return ";
  const std::string loop = "\nfor i in range(9):\n  scores.append(fold())";
  const std::vector<std::pair<std::string, uint32_t>> frames = {{"<module>", 5}, {"fold", 2}};
  EXPECT_THAT(KeepersOfCall(fold + "float(t.numel())" + loop, frames), IsEmpty());
  EXPECT_THAT(KeepersOfCall(fold + "t.sum().item(), 0" + loop, frames), IsEmpty());
  EXPECT_THAT(KeepersOfCall(fold + "None" + loop, frames), IsEmpty());
  EXPECT_THAT(KeepersOfCall(fold + "t" + loop, frames), ElementsAre("scores.append(fold())"));
  EXPECT_THAT(KeepersOfCall(fold + "t.item(), t" + loop, frames), ElementsAre("scores.append(fold())"));
}

TEST(FindKeepers, AMethodOfTheProgramsOwnIsNoContainers) {
  const std::string method = "class Learner:\n  def update(self, x):\n    y = f(x)\n    return y";
  EXPECT_THAT(KeepersOfCall(method + "\nlearner.update(g())", {{"<module>", 5}, {"Learner.update", 3}}), IsEmpty());
  EXPECT_THAT(KeepersOfCall(method + "\nbuffer.append(learner.update(g()))", {{"<module>", 5}, {"Learner.update", 3}}),
              ElementsAre("buffer.append(learner.update(g()))"));
}

// The line allocates an argument, and its method keeps it: still no dict's.
TEST(FindKeepers, AMethodOfTheProgramsOwnIsNoneWhateverItsLineAllocates) {
  const std::vector<std::string> lines = {"class Learner:", "  def update(self, x):", "    self.seen.add(x * 2)", "",
                                          "learner.update(randn(9))"};
  const UserFrame module{"/job/train.py", "<module>", 5, true}, update{"/job/train.py", "Learner.update", 3, true};
  std::vector<std::string> found;
  for (const Keeper& keeper :
       FindKeepers(Kept::kTensor, {{module}, {update, module}}, [&](const std::string&) { return lines; }))
    found.push_back(keeper.code);
  EXPECT_THAT(found, ElementsAre("self.seen.add(x * 2)"));
}

TEST(FindKeepers, WithoutTheSourceNothingIsFound) {
  const auto keepers = FindKeepers(Kept::kGraph, {{{"/gone.py", "main", 3, true}}},
                                   [](const std::string&) { return std::vector<std::string>(); });
  EXPECT_TRUE(keepers.empty());
}

}  // namespace
}  // namespace gpumem
