// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/settings/unknown_settings.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "shim/settings/settings.h"

namespace gpumemshim::control {
namespace {

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
