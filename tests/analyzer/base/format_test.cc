// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "base/format.h"

#include <gtest/gtest.h>

namespace gpumem {
namespace {

TEST(FormatBytes, UsesBinaryUnitsAndNeverLosesSmallNumbers) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1024), "1 KiB");
  EXPECT_EQ(FormatBytes(1536), "1.50 KiB");
  EXPECT_EQ(FormatBytes(512ull << 20), "512 MiB");
  EXPECT_EQ(FormatBytes((1ull << 30) * 123 / 100), "1.23 GiB");
  EXPECT_EQ(FormatBytes((80ull << 30) - 12345), "80.00 GiB");
  EXPECT_EQ(FormatBytes((700ull << 20) + 300'000), "700.3 MiB");
}

TEST(FormatBytes, RoundsUpIntoTheNextUnit) {
  EXPECT_EQ(FormatBytes((1ull << 30) - 1), "1.00 GiB");
  EXPECT_EQ(FormatBytes((1ull << 20) - 1), "1.00 MiB");
}

TEST(FormatBytes, CoversTheWholeRange) { EXPECT_EQ(FormatBytes(UINT64_MAX), "16.00 EiB"); }

TEST(FormatCount, GroupsByThousands) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1000), "1,000");
  EXPECT_EQ(FormatCount(12345678), "12,345,678");
  EXPECT_EQ(FormatCountOf(1, "block", "blocks"), "1 block");
  EXPECT_EQ(FormatCountOf(0, "block", "blocks"), "0 blocks");
}

TEST(FormatTime, KeepsThreeDigitsOrMore) {
  EXPECT_EQ(FormatTime(0), "0 s");
  EXPECT_EQ(FormatTime(17), "17 ns");
  EXPECT_EQ(FormatTime(85'000), "85 us");
  EXPECT_EQ(FormatTime(12'300'000), "12.3 ms");
  EXPECT_EQ(FormatTime(999'999'999), "1000 ms");
  EXPECT_EQ(FormatTime(12'345'000'000), "12.345 s");
  EXPECT_EQ(FormatTime(723'000'000'000), "12 min 03 s");
  EXPECT_EQ(FormatTime(3600ull * 1'000'000'000 * 27 + 60'000'000'000), "27 h 01 min");
}

TEST(HasPercent, IsExactForBytesOfAllSizes) {
  EXPECT_TRUE(HasPercent(3, 150, 2));
  EXPECT_FALSE(HasPercent(2, 150, 2));
  EXPECT_TRUE(HasPercent(UINT64_MAX / 2, UINT64_MAX / 2, 100)) << "no product overflows";
  EXPECT_FALSE(HasPercent(uint64_t{1} << 62, uint64_t{1} << 63, 51));
  EXPECT_FALSE(HasPercent(0, 0, 0)) << "of nothing";
}

TEST(FormatPercent, ShowsThatSomethingSmallIsNotNothing) {
  EXPECT_EQ(FormatPercent(0), "0 %");
  EXPECT_EQ(FormatPercent(0.0004), "<0.1 %");
  EXPECT_EQ(FormatPercent(0.054), "5.4 %");
  EXPECT_EQ(FormatPercent(0.5), "50 %");
  EXPECT_EQ(FormatPercent(1), "100 %");
}

TEST(FormatUtc, PrintsAnInstant) { EXPECT_EQ(FormatUtc(1'773'500'966'000'000'000), "2026-03-14 15:09:26 UTC"); }

TEST(ParseTime, TakesSecondsAndUnits) {
  EXPECT_EQ(ParseTime("90"), 90'000'000'000u);
  EXPECT_EQ(ParseTime("1.5s"), 1'500'000'000u);
  EXPECT_EQ(ParseTime("200ms"), 200'000'000u);
  EXPECT_EQ(ParseTime("1e9ns"), 1'000'000'000u);
  EXPECT_EQ(ParseTime("250us"), 250'000u);
  EXPECT_EQ(ParseTime("2m"), 120'000'000'000u);
  EXPECT_EQ(ParseTime("1h"), 3'600'000'000'000u);
  EXPECT_EQ(ParseTime("0"), 0u);
}

TEST(ParseTime, RefusesWhatItDoesNotKnow) {
  for (const char* text : {"", "s", "-1", "1.5 s", "1d", "nan", "inf", "1e30", "5ss", "0x10"}) {
    EXPECT_FALSE(ParseTime(text).has_value()) << text;
  }
}

TEST(ParseBytes, TakesBinaryUnits) {
  EXPECT_EQ(ParseBytes("0"), 0u);
  EXPECT_EQ(ParseBytes("4096"), 4096u);
  EXPECT_EQ(ParseBytes("512B"), 512u);
  EXPECT_EQ(ParseBytes("64K"), 65536u);
  EXPECT_EQ(ParseBytes("64kB"), 65536u);
  EXPECT_EQ(ParseBytes("1.5MiB"), 1572864u);
  EXPECT_EQ(ParseBytes("2g"), uint64_t{2} << 30);
  EXPECT_EQ(ParseBytes("1T"), uint64_t{1} << 40);
}

TEST(ParseBytes, RefusesWhatItDoesNotKnow) {
  for (const char* text : {"", "K", "-1", "1.5 K", "1Q", "nan", "inf", "1e30", "5KK", "5iB", "1KiBs"}) {
    EXPECT_FALSE(ParseBytes(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace gpumem
