// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/witness/oom/analyzer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

namespace gpumemshim::oom {
namespace {

std::vector<std::string> Listed(const char* const* list) {
  std::vector<std::string> entries;
  for (; *list != nullptr; ++list) entries.emplace_back(*list);
  return entries;
}

TEST(AnalyzerTest, IsWhatTheSettingNames) {
  setenv("GPUMEMSHIM_PROGRAM", "/bin/sh", 1);
  Analyzer analyzer;
  analyzer.Find();
  ASSERT_TRUE(analyzer.Prepare("/tmp/a.gmtrace"));
  EXPECT_STREQ(analyzer.program(), "/bin/sh");
  EXPECT_EQ(Listed(analyzer.arguments()),
            (std::vector<std::string>{"gpumemshim", "oom", "--no-replay", "--top", "5", "/tmp/a.gmtrace"}));
}

TEST(AnalyzerTest, SeesNothingOfThePreload) {
  setenv("LD_PRELOAD", "", 1);
  setenv("GPUMEMSHIM_OUTPUT", "x", 1);
  setenv("LANG", "C.UTF-8", 1);
  Analyzer analyzer;
  analyzer.Find();
  bool has_language = false;
  for (const std::string& variable : Listed(analyzer.environment())) {
    EXPECT_EQ(variable.find("LD_"), std::string::npos);
    EXPECT_EQ(variable.find("GPUMEMSHIM_"), std::string::npos);
    has_language |= variable == "LANG=C.UTF-8";
  }
  EXPECT_TRUE(has_language);
}

// Arguments are seen by everybody on the machine.
TEST(AnalyzerTest, HasTheCallbacksOfTheForecastInItsEnvironmentAlone) {
  setenv("GPUMEMSHIM_PROGRAM", "/bin/sh", 1);
  setenv("GPUMEMSHIM_FORECAST_WEBHOOK", "https://hooks.example.org/secret", 1);
  Analyzer analyzer;
  analyzer.Find();
  const std::string webhook = "GPUMEMSHIM_FORECAST_WEBHOOK=https://hooks.example.org/secret";
  for (const std::string& variable : Listed(analyzer.environment())) EXPECT_NE(variable, webhook);
  ASSERT_TRUE(analyzer.PrepareForecast("/tmp/a.gmtrace"));
  EXPECT_EQ(Listed(analyzer.arguments()),
            (std::vector<std::string>{"gpumemshim", "forecast", "--watch", "/tmp/a.gmtrace"}));
  EXPECT_EQ(Listed(analyzer.environment()).back(), webhook);
}

TEST(AnalyzerTest, WritesSummariesWithoutACache) {
  setenv("GPUMEMSHIM_PROGRAM", "/bin/sh", 1);
  Analyzer analyzer;
  analyzer.Find();
  for (int round = 0; round < 2; ++round) ASSERT_TRUE(analyzer.PrepareSummary("/tmp/a.gmtrace", ""));
  EXPECT_EQ(Listed(analyzer.arguments()),
            (std::vector<std::string>{"gpumemshim", "ranks", "--summarize", "/tmp/a.gmtrace"}));
  ASSERT_TRUE(analyzer.PrepareSummary("/tmp/a.gmtrace", "/runs/a.summary"));
  EXPECT_EQ(Listed(analyzer.arguments()), (std::vector<std::string>{"gpumemshim", "ranks", "--summarize",
                                                                    "/tmp/a.gmtrace", "--to", "/runs/a.summary"}));
  const std::vector<std::string> variables = Listed(analyzer.environment());
  EXPECT_EQ(std::count(variables.begin(), variables.end(), "GPUMEMSHIM_INDEX_ABOVE=never"), 1);
}

// gpumemshim attach brings settings along that no environment has.
TEST(AnalyzerTest, HandsOnWhatAnAttacherGave) {
  setenv("GPUMEMSHIM_FORECAST_WEBHOOK", "https://hooks.example.org/environment", 1);
  unsetenv("GPUMEMSHIM_FORECAST_EXEC");
  Analyzer analyzer;
  analyzer.Find([](const char* name) -> const char* {
    const std::string asked = name;
    if (asked == "GPUMEMSHIM_PROGRAM") return "/bin/sh";
    return asked == "GPUMEMSHIM_FORECAST_EXEC" ? "./given" : nullptr;
  });
  ASSERT_TRUE(analyzer.PrepareForecast("/tmp/a.gmtrace"));
  EXPECT_STREQ(analyzer.program(), "/bin/sh");
  const std::vector<std::string> variables = Listed(analyzer.environment());
  EXPECT_EQ(std::count(variables.begin(), variables.end(), "GPUMEMSHIM_FORECAST_EXEC=./given"), 1);
  EXPECT_EQ(variables.back(), "GPUMEMSHIM_FORECAST_WEBHOOK=https://hooks.example.org/environment");
}

TEST(AnalyzerTest, ComplainsOnceWhereThereIsNone) {
  setenv("GPUMEMSHIM_PROGRAM", "/nowhere/gpumemshim", 1);
  Analyzer analyzer;
  analyzer.Find();
  testing::internal::CaptureStderr();
  EXPECT_FALSE(analyzer.Prepare("/tmp/a.gmtrace"));
  EXPECT_FALSE(analyzer.Prepare("/tmp/a.gmtrace"));
  const std::string reported = testing::internal::GetCapturedStderr();
  EXPECT_NE(reported.find("GPUMEMSHIM_PROGRAM"), std::string::npos);
  EXPECT_EQ(reported.find('\n'), reported.size() - 1);
}

// Whether it is usable with descriptor 2 replaced by `fd`, which is closed.
bool UsableAs(const StandardError& error, int fd) {
  EXPECT_GE(fd, 0);
  const int before = dup(STDERR_FILENO);
  dup2(fd, STDERR_FILENO);
  close(fd);
  const bool usable = error.Usable();
  dup2(before, STDERR_FILENO);
  close(before);
  return usable;
}

int TemporaryFile(int flags) {
  char name[] = "/tmp/gpumemshim-error-XXXXXX";
  const int made = mkstemp(name);
  const int fd = open(name, O_WRONLY | flags);
  unlink(name);
  close(made);
  return fd;
}

TEST(StandardErrorTest, IsUsableAsItWas) {
  StandardError error;
  error.Remember();
  EXPECT_TRUE(error.Usable());
}

TEST(StandardErrorTest, IsUsableAsALogOrAPipe) {
  StandardError error;
  error.Remember();
  EXPECT_TRUE(UsableAs(error, TemporaryFile(O_APPEND)));
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_TRUE(UsableAs(error, ends[1]));
  close(ends[0]);
}

TEST(StandardErrorTest, IsNotUsableAsSomethingOfTheProgram) {
  StandardError error;
  error.Remember();
  EXPECT_FALSE(UsableAs(error, TemporaryFile(0)));
  EXPECT_FALSE(UsableAs(error, socket(AF_UNIX, SOCK_STREAM, 0)));
}

TEST(StandardErrorTest, IsNotUsableWhereItIsClosed) {
  StandardError error;
  error.Remember();
  const int before = dup(STDERR_FILENO);
  close(STDERR_FILENO);
  const bool usable = error.Usable();
  dup2(before, STDERR_FILENO);
  close(before);
  EXPECT_FALSE(usable);
}

}  // namespace

}  // namespace gpumemshim::oom
