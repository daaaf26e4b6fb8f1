// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/control/warning_line.h"

#include <gtest/gtest.h>

#include <string>

namespace gpumemshim::control {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

std::string WarningText(const sampler::Crossing& crossing) {
  char line[256];
  return std::string(line, WarningLine(crossing, line, sizeof line));
}

TEST(WarningLineTest, SaysWhoUsesHowMuch) {
  EXPECT_EQ(WarningText({1, 90, 0, 73 * kGiB, 80 * kGiB, 61 * kGiB}),
            "gpumemshim: GPU 1 is 91 % full (73 GiB of 80 GiB, 61 GiB by this process): reached 90 %\n");
  EXPECT_EQ(WarningText({0, 0, 70 * kGiB, 73 * kGiB, 0, sampler::kUnknown}),
            "gpumemshim: GPU 0 is filling up (73 GiB): reached 70 GiB\n");
}

TEST(WarningLineTest, WhatDoesNotFitIsCut) {
  char line[16];
  EXPECT_EQ(WarningLine({1, 90, 0, kGiB, kGiB, kGiB}, line, sizeof line), sizeof line - 1);
}

}  // namespace
}  // namespace gpumemshim::control
