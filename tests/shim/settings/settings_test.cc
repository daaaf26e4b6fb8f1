// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/settings/settings.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

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
  EXPECT_TRUE(settings.quiet);
  EXPECT_STREQ(settings.output, "given=1");
  EXPECT_STREQ(settings.ring_directory, "/from/the/environment");
  EXPECT_EQ(GivenSetting("GPUMEMSHIM_OUT"), nullptr);
  GiveSettings(std::string(10000, 'x').c_str());
  EXPECT_EQ(GivenSetting("GPUMEMSHIM_QUIET"), nullptr);
  GiveSettings(nullptr);
}

}  // namespace
}  // namespace gpumemshim::control
