// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/leaks/replacement.h"

#include <gtest/gtest.h>

namespace gpumem {
namespace {

std::vector<int64_t> Line(size_t count, int64_t first, int64_t slope) {
  std::vector<int64_t> values;
  for (size_t i = 0; i < count; ++i) values.push_back((first + slope * static_cast<int64_t>(i) + 511) / 512 * 512);
  return values;
}

TEST(GrowsByReplacement, AlongALine) {
  EXPECT_TRUE(GrowsByReplacement(Line(50, 1000, 320), std::vector<int64_t>(50, 1)));
  EXPECT_TRUE(GrowsByReplacement(Line(50, 1000, 320), std::vector<int64_t>(50, 2))) << "keys and values";
}

TEST(GrowsByReplacement, NotWhereBlocksComeAndGo) {
  std::vector<int64_t> blocks(50, 1);
  blocks[20] = 2;
  EXPECT_FALSE(GrowsByReplacement(Line(50, 1000, 320), blocks));
  EXPECT_FALSE(GrowsByReplacement(Line(50, 1000, 320), std::vector<int64_t>(50, 0)));
}

TEST(GrowsByReplacement, NotWhereItShrinksOrCurves) {
  std::vector<int64_t> bytes = Line(50, 1000, 3200);
  bytes[30] = bytes[10];
  EXPECT_FALSE(GrowsByReplacement(bytes, std::vector<int64_t>(50, 1)));
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<int64_t>(i * i) * 512;
  EXPECT_FALSE(GrowsByReplacement(bytes, std::vector<int64_t>(50, 1)));
}

TEST(GrowsByReplacement, NotWhereLittleIsKnown) {
  EXPECT_FALSE(GrowsByReplacement({}, {}));
  EXPECT_FALSE(GrowsByReplacement(Line(15, 1000, 5000), std::vector<int64_t>(15, 1)));
  EXPECT_FALSE(GrowsByReplacement(Line(50, 1000, 40), std::vector<int64_t>(50, 1))) << "a few roundings";
  EXPECT_FALSE(GrowsByReplacement(Line(50, 1000, 320), std::vector<int64_t>(49, 1)));
}

}  // namespace
}  // namespace gpumem
