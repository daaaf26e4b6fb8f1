// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/json_writer.h"
#include "web/event_windows.h"
#include "web/layers.h"
#include "web/packed_data.h"
#include "web/page_lives.h"
#include "web/page_words.h"
#include "web/report_page.h"
#include "web/time_rows.h"

namespace gpumem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

MeasureValues Allocated(uint64_t bytes) { return {bytes, bytes + 100, 0, bytes + 100}; }

TEST(TimeRows, KeepsAShortRunAsItIs) {
  TimeRows rows(8);
  for (const uint64_t bytes : {10, 30, 30, 20}) rows.Observe(bytes * 2 + rows.rows().size(), 1000, Allocated(bytes));
  rows.Finish();
  ASSERT_EQ(rows.rows().size(), 3u);  // the same state twice is one row
  EXPECT_EQ(rows.rows()[1].values.allocated, 30u);
  EXPECT_EQ(rows.At(0), 0u);
  EXPECT_EQ(rows.At(rows.rows()[1].event), 1u);
  EXPECT_EQ(rows.At(1'000), 3u);
}

TEST(TimeRows, ALongRunLosesNoPeakAndKeepsItsEnd) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    TimeRows rows(16);
    uint64_t most = 0, last = 0;
    for (uint64_t event = 0; event < 1 + random() % 5'000; ++event) {
      last = 1 + random() % 1'000'000;
      most = std::max(most, last);
      rows.Observe(event, event * 10, Allocated(last));
    }
    rows.Finish();
    EXPECT_LE(rows.rows().size(), 17u);
    const auto higher = [](const TimeRow& a, const TimeRow& b) { return a.values.allocated < b.values.allocated; };
    EXPECT_EQ(std::max_element(rows.rows().begin(), rows.rows().end(), higher)->values.allocated, most);
    EXPECT_EQ(rows.rows().back().values.allocated, last);
    EXPECT_TRUE(std::is_sorted(rows.rows().begin(), rows.rows().end(),
                               [](const TimeRow& a, const TimeRow& b) { return a.event < b.event; }));
  }
}

TEST(TimeRows, ThePinnedMomentTakesTheRowOfItsStretch) {
  TimeRows rows(2);
  for (uint64_t event = 0; event < 64; ++event)
    rows.Observe(event, event, Allocated(event == 40 || event == 45 ? 900 : 1 + event));
  rows.Pin(45, 45, Allocated(900));
  rows.Finish();
  const size_t at = rows.At(45);
  ASSERT_LT(at, rows.rows().size());
  EXPECT_EQ(rows.rows()[at].event, 45u);
}

TEST(TimeRows, ARunWithFewChangesIsExactAndALongerOneIsAsWithoutThat) {
  for (const uint64_t events : {40u, 64u, 65u, 1'000u}) {
    TimeRows exact(8, 64), plain(8);
    for (uint64_t event = 0; event < events; ++event) {
      for (TimeRows* const rows : {&exact, &plain}) rows->Observe(event, event, Allocated(1 + event % 7));
    }
    exact.Finish();
    plain.Finish();
    if (events <= 64) {
      EXPECT_EQ(exact.rows().size(), events);
    } else {
      EXPECT_LE(exact.rows().size(), 10u) << events;
      EXPECT_GT(exact.changes_in_row(), 1u);
    }
    EXPECT_EQ(exact.rows().back().values.allocated, plain.rows().back().values.allocated);
  }
}

TEST(TimeRows, SingleEventsAreRowsOfTheirOwnAndNoPeakBesideThemIsLost) {
  std::mt19937 random(11);
  for (int round = 0; round < 50; ++round) {
    const uint64_t from = random() % 900, until = from + random() % 100, pinned = random() % 1'000;
    TimeRows rows(16);
    std::vector<uint64_t> bytes;
    for (uint64_t event = 0; event < 1'000; ++event) {
      bytes.push_back(1 + random() % 1'000'000);
      rows.Observe(event, event, Allocated(bytes.back()), from <= event && event < until);
    }
    rows.Pin(pinned, pinned, Allocated(bytes[pinned]));
    rows.Finish();
    uint64_t before = 0, singles = 0, most = 0;
    for (const TimeRow& row : rows.rows()) {
      EXPECT_TRUE(row.event > before || &row == rows.rows().data());
      EXPECT_EQ(row.values.allocated, bytes[row.event]);
      singles += from <= row.event && row.event < until ? 1 : 0;
      before = row.event;
      most = std::max(most, row.most_total);
    }
    EXPECT_EQ(singles, until - from);
    EXPECT_EQ(most, *std::max_element(bytes.begin(), bytes.end()) + 100);
  }
}

TEST(EventWindows, AreApartAndNoLongerThanThereIsRoomFor) {
  EventWindows windows(100);
  windows.Add(50, 80);
  windows.Add(10, 20);
  windows.Add(75, 90);    // a part of it is there
  windows.Add(200, 250);  // 100 in all
  windows.Add(300, 301);  // no room
  windows.Add(9, 9);      // nothing
  EXPECT_THAT(windows.ranges(), ElementsAre(EventRange{10, 20}, EventRange{50, 90}, EventRange{200, 250}));
  windows.Add(12, 60);
  EXPECT_EQ(windows.ranges().size(), 3u) << "with what lies between it would be too long";
  for (const uint64_t event : {10, 19, 50, 89, 200, 249}) EXPECT_TRUE(windows.Has(event)) << event;
  for (const uint64_t event : {0, 9, 20, 49, 90, 199, 250, 300}) EXPECT_FALSE(windows.Has(event)) << event;
}

TEST(EventRange, IsTwoNumbersOfWhichTheFirstIsSmaller) {
  const auto range = ParseEventRange("1200-1500");
  ASSERT_TRUE(range.ok());
  EXPECT_EQ(*range, (EventRange{1200, 1500}));
  EXPECT_TRUE(ParseEventRange("0-4096").ok());
  for (const char* text : {"", "-", "5", "5-", "-5", "5-5", "6-5", "0-4097", "+1-2", " 1-2", "1-2 ", "1--2", "1-2-3",
                           "0x1-0x2", "1-99999999999999999999", "\xff-1"})
    EXPECT_FALSE(ParseEventRange(text).ok()) << text;
}

TEST(Layers, ChangesAddUpToWhatIsThere) {
  Layers layers;
  layers.Add(1, 0, 3, 100);
  layers.Add(1, 2, 5, 50);
  layers.Add(2, 1, 2, 70);
  layers.Add(3, 4, 4, 999);  // between two rows
  const std::vector<Layer> made = layers.Take(10);
  ASSERT_EQ(made.size(), 2u);
  EXPECT_EQ(made[0].key, 1u);
  EXPECT_EQ(made[0].highest, 150u);
  std::vector<int64_t> bytes;
  for (const LayerChange& change : made[0].changes) bytes.push_back(change.bytes);
  EXPECT_THAT(bytes, ElementsAre(100, 50, -100, -50));
}

TEST(Layers, WhatHasNoRoomIsOneLayer) {
  Layers layers;
  for (uint32_t key = 0; key < 10; ++key) layers.Add(key, 0, 10, 100 - key);
  const std::vector<Layer> made = layers.Take(4);
  ASSERT_EQ(made.size(), 5u);
  EXPECT_EQ(made[4].key, kOtherKeys);
  EXPECT_EQ(made[4].keys, 6u);
  EXPECT_EQ(made[4].highest, 96u + 95 + 94 + 93 + 92 + 91);
}

TEST(Layers, ASingleOtherKeepsItsName) {
  Layers layers;
  for (uint32_t key = 0; key < 5; ++key) layers.Add(key, 0, 10, 100 - key);
  const std::vector<Layer> made = layers.Take(4);
  ASSERT_EQ(made.size(), 5u);
  EXPECT_EQ(made[4].key, 4u);
}

PageLife OfSize(uint64_t size) {
  PageLife life;
  life.life.size = size;
  life.life.born = 1'000 - size;
  return life;
}

TEST(PageLives, KeepsWhatIsWantedThenTheLargest) {
  PageLives lives(4);
  for (uint64_t size = 1; size <= 100; ++size)
    lives.Add(OfSize(size), size == 3    ? PageLives::Use::kOfMoment
                            : size == 50 ? PageLives::Use::kOfEvent
                                         : PageLives::Use::kNone);
  lives.Finish();
  std::vector<uint64_t> sizes;
  for (const PageLife& life : lives.lives()) sizes.push_back(life.life.size);
  EXPECT_THAT(sizes, ElementsAre(100, 99, 50, 3));  // in the order of their birth
  EXPECT_EQ(lives.left_out(), 96u);
  EXPECT_TRUE(lives.has_events());
}

TEST(PageLives, SaysWhereLivesOfSingleEventsHaveNoRoom) {
  PageLives lives(4);
  for (uint64_t size = 1; size <= 9; ++size)
    lives.Add(OfSize(size), size < 4 ? PageLives::Use::kOfEvent : PageLives::Use::kOfMoment);
  lives.Finish();
  EXPECT_TRUE(lives.has_events()) << "what is alive at a moment has less right to stay";
  EXPECT_EQ(lives.left_out(), 5u);
  PageLives too_few(4);
  for (uint64_t size = 1; size <= 5; ++size) too_few.Add(OfSize(size), PageLives::Use::kOfEvent);
  too_few.Finish();
  EXPECT_FALSE(too_few.has_events());
}

TEST(PageLives, OfEqualOnesTheFirstStay) {
  PageLives lives(3);
  for (int i = 0; i < 20; ++i) lives.Add(OfSize(8), PageLives::Use::kNone);
  lives.Finish();
  EXPECT_EQ(lives.lives().size(), 3u);
  EXPECT_EQ(lives.left_out(), 17u);
}

TEST(PackedData, UnpacksToWhatItWas) {
  std::string data;
  for (int i = 0; i < 5'000; ++i) data += "{\"</script>\": " + std::to_string(i) + "}";
  const std::string packed = PackedData(data);
  EXPECT_THAT(packed, Not(HasSubstr("<")));
  EXPECT_LT(packed.size(), data.size() / 3);
  std::string bytes, text(data.size(), '\0');
  ASSERT_TRUE(absl::Base64Unescape(packed, &bytes));
  uLongf size = text.size();
  ASSERT_EQ(uncompress(reinterpret_cast<Bytef*>(text.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()),
                       bytes.size()),
            Z_OK);
  EXPECT_EQ(text, data);
  EXPECT_FALSE(PackedData("").empty());
}

std::string WordsJson(const PageWords& words) {
  std::string text;
  JsonWriter json(&text);
  json.BeginObject();
  words.Write(&json);
  json.EndObject();
  return text;
}

TEST(PageWords, AreThePagesOwnTextsAndThoseOfAnswersThatPeopleRead) {
  PageWords words(
      "<p title=\"the peak; the end\">Blocks</p> the script's 'share' and '{n} block[s]', 'no phrase', 'cut\n'");
  words.Add("optimizer state");
  words.Add("train.py:3 main");
  words.AddAnswer(
      R"({"a": [{"headline": "none: every event is in the trace", "module": "peak"}], "stage": "forward"})");
  words.AddAnswer("no JSON");
  const std::string json = WordsJson(words);
  for (const char* const english : {"the peak; the end", "Blocks", "share", "{n} block[s]", "optimizer state",
                                    "none: every event is in the trace", "forward"})
    EXPECT_THAT(json, HasSubstr(absl::StrCat("\"", english, "\":")));
  for (const char* const name : {"train.py", "\"peak\":", "no phrase"}) EXPECT_THAT(json, Not(HasSubstr(name)));
  EXPECT_THAT(json, HasSubstr("{n} 个内存块"));
}

TEST(ReportPage, HoldsItsDataAndReadsTheVersionThatIsWritten) {
  const std::string page = ReportPage("QUJD", "zh");
  EXPECT_THAT(page, HasSubstr("<html lang=\"zh\">"));
  EXPECT_THAT(page, HasSubstr("QUJD"));
  EXPECT_THAT(page, Not(HasSubstr("@DATA@")));
  EXPECT_THAT(page, HasSubstr(absl::StrCat("SCHEMA_VERSION = ", kJsonSchemaVersion, ";")));
}

}  // namespace
}  // namespace gpumem
