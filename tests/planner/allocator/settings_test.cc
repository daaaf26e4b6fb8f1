// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <gmock/gmock.h>

#include "planner/allocator/replayer.h"

namespace gpumem::plan {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

TEST(SettingsToTryTest, WhatPeopleTry) {
  EXPECT_THAT(SettingsToTry(""),
              ElementsAre("expandable_segments:True", "max_split_size_mb:128", "max_split_size_mb:512",
                          "roundup_power2_divisions:4", "garbage_collection_threshold:0.8", "backend:cudaMallocAsync"));
}

TEST(SettingsToTryTest, EachTakesThePlaceOfItsKey) {
  const std::vector<std::string> tried = SettingsToTry("max_split_size_mb:128,garbage_collection_threshold:0.6");
  EXPECT_THAT(tried, Contains("garbage_collection_threshold:0.6,max_split_size_mb:512"));
  EXPECT_THAT(tried, Contains("max_split_size_mb:128,garbage_collection_threshold:0.6,expandable_segments:True"));
  EXPECT_THAT(tried, Contains("max_split_size_mb:128,garbage_collection_threshold:0.8"));
  EXPECT_THAT(tried, Contains("backend:cudaMallocAsync"));
  EXPECT_THAT(tried, Contains(""));  // PyTorch's defaults
}

TEST(SettingsToTryTest, NotWhatWasRecorded) {
  EXPECT_THAT(SettingsToTry("expandable_segments:True"), Not(Contains("expandable_segments:True")));
  EXPECT_THAT(SettingsToTry("max_split_size_mb:128"), Not(Contains("max_split_size_mb:128")));
}

// A list as a value has commas of its own.
TEST(SettingsToTryTest, AListIsNotTornApart) {
  EXPECT_THAT(SettingsToTry("roundup_power2_divisions:[256:1,512:2,>:4]"),
              Not(Contains(::testing::HasSubstr("512:2,e"))));
}

}  // namespace
}  // namespace gpumem::plan
