// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/control/server/live_settings.h"

#include <gtest/gtest.h>

#include <string>

#include "shim/control/progress.h"
#include "shim/control/stderr_lines.h"
#include "shim/python/owners.h"

namespace gpumemshim::control {

// In their place: these test what is said of them.
uint32_t g_interval_ms;
void SetProgressInterval(uint32_t interval_ms) { g_interval_ms = interval_ms; }
uint32_t ProgressInterval() { return g_interval_ms; }

}  // namespace gpumemshim::control

namespace gpumemshim::python {

uint32_t g_limit_ms = 300;
void SetOwnersLimit(uint32_t limit_ms) { g_limit_ms = limit_ms; }
uint32_t GetOwnersLimit() { return g_limit_ms; }

}  // namespace gpumemshim::python

namespace gpumemshim::control {
namespace {

// "" where it was done.
std::string Set(const std::string& text) {
  const char* why = SetLiveSetting(text.data(), text.size());
  return why == nullptr ? "" : why;
}

std::string Value(const char* name) {
  LiveValues values;
  GetLiveSettings(&values);
  for (const SettingNow& setting : values.settings) {
    EXPECT_TRUE(setting.can_change);
    if (std::string(setting.name) == name) return setting.value;
  }
  return "none";
}

TEST(LiveSettings, WhatCanBeChanged) {
  EXPECT_EQ(Value("GPUMEMSHIM_LOG"), "info");
  EXPECT_EQ(Value("GPUMEMSHIM_STATUS"), "0");
  EXPECT_EQ(Value("GPUMEMSHIM_OWNERS_MS"), "300");
  EXPECT_EQ(Set("GPUMEMSHIM_LOG=DEBUG"), "");
  EXPECT_EQ(Set("GPUMEMSHIM_STATUS=5m"), "");
  EXPECT_EQ(Set("GPUMEMSHIM_OWNERS_MS=0"), "");
  EXPECT_EQ(Value("GPUMEMSHIM_LOG"), "debug");
  EXPECT_EQ(Value("GPUMEMSHIM_STATUS"), "300s");
  EXPECT_EQ(Value("GPUMEMSHIM_OWNERS_MS"), "0");
  EXPECT_EQ(Set("GPUMEMSHIM_STATUS=0"), "");
  EXPECT_EQ(Value("GPUMEMSHIM_STATUS"), "0");
  EXPECT_EQ(Set("GPUMEMSHIM_LOG=info"), "");
}

TEST(LiveSettings, ARefusalHasItsReason) {
  EXPECT_EQ(Set("GPUMEMSHIM_LOG"), "set needs NAME=VALUE, such as GPUMEMSHIM_LOG=debug");
  EXPECT_EQ(Set("GPUMEMSHIM_LOG=loud"), "GPUMEMSHIM_LOG may be off, error, warning, info or debug");
  EXPECT_EQ(Set("GPUMEMSHIM_STATUS=1"), "GPUMEMSHIM_STATUS may be 0, or an interval such as 10s, 5m, 1h");
  EXPECT_EQ(Set("GPUMEMSHIM_OWNERS_MS=" + std::string(200, '1')),
            "GPUMEMSHIM_OWNERS_MS may be milliseconds; 0 = no look at owners");
  EXPECT_EQ(Set("GPUMEMSHIM_START=off"), "recording is switched by start and stop");
  EXPECT_EQ(Set("GPUMEMSHIM_EVAL=1"),
            "GPUMEMSHIM_EVAL is read once, when the program first uses CUDA: start the program with it. What can be "
            "changed: GPUMEMSHIM_LOG, GPUMEMSHIM_STATUS, GPUMEMSHIM_OWNERS_MS");
  EXPECT_EQ(Set("GPUMEMSHIM_LOGS=info").substr(0, 57), "GPUMEMSHIM_LOGS is not a setting (GPUMEMSHIM_LOG is). Wha");
  EXPECT_EQ(Set("=").substr(0, 17), " is not a setting");
  EXPECT_EQ(Set(std::string(2000, 'x') + "=1").find('\n'), std::string::npos);
}

}  // namespace
}  // namespace gpumemshim::control
