// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/settings/settings.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace gpumemshim::control {
namespace {

TEST(Settings, Sizes) {
  EXPECT_EQ(ParseSize("8388608"), 8388608u);
  EXPECT_EQ(ParseSize("8M"), 8388608u);
  EXPECT_EQ(ParseSize("8MiB"), 8388608u);
  EXPECT_EQ(ParseSize("512k"), 524288u);
  EXPECT_EQ(ParseSize("1gb"), uint64_t{1} << 30);
  for (const char* bad : {"", "M", "-1", "8X", "8MM", "99999999999999999999", "9999999999999g"}) {
    EXPECT_EQ(ParseSize(bad), 0u) << bad;
  }
  EXPECT_EQ(ParseSize(nullptr), 0u);
}

TEST(Settings, Switches) {
  for (const char* yes : {"1", "true", "YES", "On"}) EXPECT_TRUE(ParseSwitch(yes, false)) << yes;
  for (const char* no : {"0", "false", "off", "maybe"}) EXPECT_FALSE(ParseSwitch(no, true)) << no;
  EXPECT_TRUE(ParseSwitch(nullptr, true));
  EXPECT_FALSE(ParseSwitch("", false));
}

TEST(Settings, Milliseconds) {
  EXPECT_EQ(ParseMilliseconds("250", 1000), 250u);
  EXPECT_EQ(ParseMilliseconds("0", 1000), 0u);
  for (const char* wrong : {"", "-1", "1s", "99999999999"}) EXPECT_EQ(ParseMilliseconds(wrong, 1000), 1000u) << wrong;
  EXPECT_EQ(ParseMilliseconds(nullptr, 1000), 1000u);
}

TEST(Settings, Environment) {
  setenv("GPUMEMSHIM_NATIVE", "0", 1);
  setenv("GPUMEMSHIM_RING_DIRECTORY", "none", 1);
  setenv("GPUMEMSHIM_OUTPUT", "x-%p", 1);
  Settings settings = ReadSettings();
  EXPECT_EQ(settings.unwinder, stack::Unwinder::kNone);
  EXPECT_STREQ(settings.ring_directory, "");
  EXPECT_STREQ(settings.output, "x-%p");
  EXPECT_TRUE(settings.python);

  setenv("GPUMEMSHIM_NATIVE", "full", 1);
  setenv("GPUMEMSHIM_UNWINDER", "libgcc", 1);
  EXPECT_EQ(ReadSettings().native, stack::NativeDepth::kFull);
  EXPECT_EQ(ReadSettings().unwinder, stack::Unwinder::kLibgcc);
  setenv("GPUMEMSHIM_UNWINDER", "fp", 1);
  EXPECT_EQ(ReadSettings().unwinder, stack::Unwinder::kFramePointers);
  setenv("GPUMEMSHIM_UNWINDER", "none", 1);
  EXPECT_EQ(ReadSettings().unwinder, stack::Unwinder::kNone);
  setenv("GPUMEMSHIM_UNWINDER", "perf", 1);
  setenv("GPUMEMSHIM_NATIVE", "perhaps", 1);
  EXPECT_EQ(ReadSettings().unwinder, stack::Unwinder::kLibunwind);
  EXPECT_EQ(ReadSettings().native, stack::NativeDepth::kCut);
  unsetenv("GPUMEMSHIM_UNWINDER");
  unsetenv("GPUMEMSHIM_NATIVE");
  unsetenv("GPUMEMSHIM_RING_DIRECTORY");
  unsetenv("GPUMEMSHIM_OUTPUT");
  settings = ReadSettings();
  EXPECT_EQ(settings.unwinder, stack::Unwinder::kLibunwind);
  EXPECT_STREQ(settings.ring_directory, "/dev/shm");
}

TEST(Settings, WhatAnAttacherGivesComesBeforeTheEnvironment) {
  setenv("GPUMEMSHIM_OUTPUT", "from-the-environment", 1);
  setenv("GPUMEMSHIM_RING_DIRECTORY", "/from/the/environment", 1);
  GiveSettings("GPUMEMSHIM_QUIET=1\nGPUMEMSHIM_OUTPUT=given=1\n");
  const Settings settings = ReadSettings();
  EXPECT_EQ(settings.log, LogLevel::kOff);
  EXPECT_STREQ(settings.output, "given=1");
  EXPECT_STREQ(settings.ring_directory, "/from/the/environment");
  EXPECT_EQ(GivenSetting("GPUMEMSHIM_OUT"), nullptr);
  GiveSettings(std::string(10000, 'x').c_str());
  EXPECT_EQ(GivenSetting("GPUMEMSHIM_QUIET"), nullptr);
  GiveSettings(nullptr);
}

TEST(Settings, LevelOfTheLog) {
  unsetenv("GPUMEMSHIM_QUIET");
  EXPECT_EQ(ReadSettings().log, LogLevel::kInfo);
  setenv("GPUMEMSHIM_LOG", "Warning", 1);
  EXPECT_EQ(ReadSettings().log, LogLevel::kWarning);
  setenv("GPUMEMSHIM_QUIET", "1", 1);
  EXPECT_EQ(ReadSettings().log, LogLevel::kWarning) << "the newer name holds";
  setenv("GPUMEMSHIM_LOG", "loud", 1);
  EXPECT_EQ(ReadSettings().log, LogLevel::kOff) << "what makes no sense is absent";
  unsetenv("GPUMEMSHIM_LOG");
  unsetenv("GPUMEMSHIM_QUIET");
  for (const char* name : {"off", "error", "warning", "info", "debug"})
    EXPECT_STREQ(LogLevelName(ParseLogLevel(name, LogLevel::kInfo)), name);
}

TEST(Settings, StatusAndLimitAreOffUnlessAskedFor) {
  EXPECT_EQ(ReadSettings().status_ms, 0u);
  EXPECT_EQ(ReadSettings().limit_bytes, 0u);
  setenv("GPUMEMSHIM_STATUS", "10s", 1);
  setenv("GPUMEMSHIM_LIMIT", "20GiB", 1);
  EXPECT_EQ(ReadSettings().status_ms, 10'000u);
  EXPECT_EQ(ReadSettings().limit_bytes, uint64_t{20} << 30);
  setenv("GPUMEMSHIM_LIMIT", "most", 1);
  EXPECT_EQ(ReadSettings().limit_bytes, 0u);
  unsetenv("GPUMEMSHIM_STATUS");
  unsetenv("GPUMEMSHIM_LIMIT");
}

std::string Line(std::vector<const char*> environment) {
  environment.push_back(nullptr);
  char line[2048];
  return std::string(line, UnknownSettingsLine(environment.data(), line, sizeof line));
}

std::string Nearest(const char* name) {
  const char* found = NearestSetting(name, std::strlen(name));
  return found == nullptr ? "" : found;
}

TEST(UnknownSettings, NothingToSay) {
  EXPECT_EQ(Line({}), "");
  EXPECT_EQ(Line({"PATH=/bin", "GPUMEMSHIM_OUTPUT=x", "GPUMEMSHIM_LIBRARY=y", "GPUMEM_OUTPUT=z"}), "");
  EXPECT_EQ(Line({"GPUMEMSHIM_INDEX_DIR=x", "GPUMEMSHIM_PLAN_STEPS=2", "GPUMEMSHIM_RISK=high"}), "");
  EXPECT_NE(Line({"GPUMEMSHIM_RISKY=x"}), "");
  char line[16];
  EXPECT_EQ(UnknownSettingsLine(nullptr, line, sizeof line), 0u);
}

TEST(UnknownSettings, NamesTheNearest) {
  EXPECT_EQ(
      Line({"GPUMEMSHIM_OUPUT=x"}),
      "gpumemshim: GPUMEMSHIM_OUPUT is not a setting of this version (GPUMEMSHIM_OUTPUT is). docs/environment.md lists "
      "them all.\n");
  EXPECT_EQ(Nearest("GPUMEMSHIM_QUIT"), "GPUMEMSHIM_QUIET");
  EXPECT_EQ(Nearest("GPUMEMSHIM_output"), "GPUMEMSHIM_OUTPUT");
  EXPECT_EQ(Nearest("GPUMEMSHIM_RINGSIZE"), "GPUMEMSHIM_RING_SIZE");
  EXPECT_EQ(Nearest("GPUMEMSHIM_SOMETHING_ELSE"), "");
  EXPECT_EQ(Nearest("GPUMEMSHIM_"), "");
  EXPECT_EQ(Nearest(("GPUMEMSHIM_" + std::string(500, 'X')).c_str()), "");
}

TEST(UnknownSettings, SeveralInOneLineAndNothingForTheTerminal) {
  const std::string line = Line({"GPUMEMSHIM_A\x1b[2J=1", "HOME=/", "GPUMEMSHIM_B"});
  EXPECT_EQ(line.find('\x1b'), std::string::npos);
  EXPECT_NE(line.find("GPUMEMSHIM_A?[2J"), std::string::npos) << line;
  EXPECT_NE(line.find("; GPUMEMSHIM_B"), std::string::npos) << line;
  char small[32];
  const char* environment[] = {"GPUMEMSHIM_OUPUT=x", nullptr};
  EXPECT_LT(UnknownSettingsLine(environment, small, sizeof small), sizeof small);
}

// docs/environment.md has a row for each name that is read, and no other.
TEST(Settings, TheTableInTheDocumentsIsTheList) {
  std::ifstream file(GPUMEM_SOURCE_DIR "/docs/environment.md");
  std::stringstream text;
  text << file.rdbuf();
  std::set<std::string> documented, known(std::begin(kSettingNames), std::end(kSettingNames));
  known.insert(std::begin(kToolSettingNames), std::end(kToolSettingNames));
  known.insert(std::begin(kProgramSettingNames), std::end(kProgramSettingNames));
  const std::string page = text.str();
  const std::regex row("\n\\| `(GPUMEMSHIM_[A-Z_]+)` \\|");
  for (std::sregex_iterator it(page.begin(), page.end(), row), end; it != end; ++it) {
    EXPECT_TRUE(documented.insert((*it)[1]).second) << (*it)[1] << " has two rows";
  }
  EXPECT_EQ(documented, known);
}

// What settings.cc asks the environment for is in the list, or the warning would call it unknown.
TEST(Settings, EveryNameThatIsReadIsInTheList) {
  std::set<std::string> known(std::begin(kSettingNames), std::end(kSettingNames));
  known.insert(std::begin(kToolSettingNames), std::end(kToolSettingNames));
  std::ifstream file(GPUMEM_SOURCE_DIR "/shim/settings/settings.cc");
  std::stringstream text;
  text << file.rdbuf();
  const std::string source = text.str();
  const std::regex name("\"(GPUMEMSHIM_[A-Z_]+)\"");
  std::set<std::string> read;
  for (std::sregex_iterator it(source.begin(), source.end(), name), end; it != end; ++it) read.insert((*it)[1]);
  for (const std::string& each : read) EXPECT_EQ(known.count(each), 1u) << each;
  EXPECT_GT(read.size(), 5u);
}

}  // namespace
}  // namespace gpumemshim::control
