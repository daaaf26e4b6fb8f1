// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "base/parallel_work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>
#include <stdexcept>
#include <string>

namespace gpumem {
namespace {

struct Answers {
  std::map<size_t, std::string> texts;
  std::vector<bool> answered;
};

Answers Ask(size_t count, size_t processes, const std::function<std::string(size_t)>& work) {
  Answers answers;
  answers.answered = WorkInParallel(count, processes, work, [&](size_t i, std::string answer) {
    EXPECT_TRUE(answers.texts.emplace(i, std::move(answer)).second) << i << " twice";
  });
  return answers;
}

size_t Count(const std::vector<bool>& answered) {
  return static_cast<size_t>(std::count(answered.begin(), answered.end(), true));
}

TEST(ParallelWorkTest, AnswersEachOnceFromOtherProcesses) {
  const Answers answers = Ask(100, 4, [](size_t i) { return std::to_string(i) + " " + std::to_string(getpid()); });
  EXPECT_EQ(Count(answers.answered), 100u);
  for (const auto& [i, text] : answers.texts) {
    EXPECT_EQ(text.substr(0, text.find(' ')), std::to_string(i));
    EXPECT_NE(text.substr(text.find(' ') + 1), std::to_string(getpid()));
  }
}

TEST(ParallelWorkTest, TakesAnswersOfAnySize) {
  const Answers answers = Ask(12, 3, [](size_t i) { return std::string(i * 100'000, 'x'); });
  ASSERT_EQ(answers.texts.size(), 12u);
  for (const auto& [i, text] : answers.texts) EXPECT_EQ(text.size(), i * 100'000);
}

TEST(ParallelWorkTest, SaysWhatAKilledProcessDidNotAnswer) {
  const Answers answers = Ask(20, 2, [](size_t i) -> std::string {
    if (i == 7) raise(SIGKILL);
    return "fine";
  });
  EXPECT_EQ(Count(answers.answered), 19u);
  EXPECT_FALSE(answers.answered[7]);
}

TEST(ParallelWorkTest, WhereAllDieTheRestIsTheCallers) {
  const Answers answers = Ask(20, 2, [](size_t) -> std::string { throw std::runtime_error("no memory"); });
  EXPECT_EQ(Count(answers.answered), 0u);
  EXPECT_TRUE(answers.texts.empty());
}

TEST(ParallelWorkTest, LeavesNoChildBehind) {
  Ask(5, 3, [](size_t) { return std::string("x"); });
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(ParallelWorkTest, OneProcessIsNoneAtAll) {
  EXPECT_EQ(Count(Ask(5, 1, [](size_t) { return std::string(); }).answered), 0u);
  EXPECT_EQ(Count(Ask(0, 4, [](size_t) { return std::string(); }).answered), 0u);
  EXPECT_GE(UsableCores(), 1u);
}

}  // namespace
}  // namespace gpumem
