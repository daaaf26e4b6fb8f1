// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "symbols/isolated.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <new>
#include <utility>
#include <vector>

namespace gpumem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

const ReportProgress kNoReport = [](uint64_t, uint64_t) {};

TEST(IsolatedTest, AnswersAndReports) {
  std::vector<std::pair<uint64_t, uint64_t>> reported;
  int touched = 0;
  const auto answer = RunIsolated(
      [&](const ReportProgress& report) {
        touched = 1;
        report(1, 2);
        report(2, 2);
        return std::string(3 << 20, 'x');
      },
      [&](uint64_t done, uint64_t all) {
        reported.push_back({done, all});
      });
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->size(), 3u << 20);
  EXPECT_THAT(reported, ElementsAre(Pair(1, 2), Pair(2, 2)));
  EXPECT_EQ(touched, 0) << "the work is done in a copy";
}

TEST(IsolatedTest, SurvivesACrash) {
  for (const int signal_number : {SIGSEGV, SIGBUS, SIGABRT, SIGKILL}) {
    const auto answer = RunIsolated(
        [&](const ReportProgress& report) {
          report(1, 2);
          raise(signal_number);
          return std::string("never");
        },
        kNoReport);
    EXPECT_THAT(answer.status().message(), HasSubstr("crashed (signal " + std::to_string(signal_number) + ")"));
  }
}

TEST(IsolatedTest, SurvivesLackOfMemory) {
  const auto answer = RunIsolated([](const ReportProgress&) -> std::string { throw std::bad_alloc(); }, kNoReport);
  EXPECT_THAT(answer.status().message(), HasSubstr("ran out of memory"));
}

TEST(IsolatedTest, IsLimited) {
  rlim_t core = 1, seconds = 0;
  const auto answer = RunIsolated(
      [](const ReportProgress&) {
        rlimit core_limit{}, time_limit{}, memory_limit{};
        getrlimit(RLIMIT_CORE, &core_limit);
        getrlimit(RLIMIT_CPU, &time_limit);
        getrlimit(RLIMIT_DATA, &memory_limit);
        if (memory_limit.rlim_cur == RLIM_INFINITY) return std::string("no limit");
        return std::to_string(core_limit.rlim_cur) + " " + std::to_string(time_limit.rlim_cur);
      },
      kNoReport);
  ASSERT_TRUE(answer.ok());
  ASSERT_EQ(std::sscanf(answer->c_str(), "%lu %lu", &core, &seconds), 2) << *answer;
  EXPECT_EQ(core, 0u);
  EXPECT_LE(seconds, 120u);
}

}  // namespace
}  // namespace gpumem
