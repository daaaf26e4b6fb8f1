// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/allocator/segment_log.h"

#include <gtest/gtest.h>

namespace gpumem::plan {
namespace {

TEST(FirstDifferenceTest, NoneBetweenEquals) {
  EXPECT_FALSE(FirstDifference({}, {}).has_value());
  EXPECT_FALSE(FirstDifference({{0, {2, -2}}, {1, {}}}, {{0, {2, -2}}}).has_value());
}

TEST(FirstDifferenceTest, NamesThePlaceAndBothSides) {
  const auto differs = [](const SegmentChanges& recorded, const SegmentChanges& replayed) {
    const std::optional<SegmentDifference> first = FirstDifference(recorded, replayed);
    return first.has_value() ? std::vector<int64_t>{first->device, static_cast<int64_t>(first->index), first->recorded,
                                                    first->replayed}
                             : std::vector<int64_t>{};
  };
  EXPECT_EQ(differs({{0, {2, 20, -2}}}, {{0, {2, 22, -2}}}), (std::vector<int64_t>{0, 1, 20, 22}));
  EXPECT_EQ(differs({{0, {2, 20}}}, {{0, {2}}}), (std::vector<int64_t>{0, 1, 20, 0}));
  EXPECT_EQ(differs({{0, {2}}}, {{0, {2}}, {1, {4}}}), (std::vector<int64_t>{1, 0, 0, 4}));
}

TEST(CountTest, WhatCameAndWhatWent) {
  const SegmentCounts counts = Count({{0, {2, 20, -2}}, {1, {4}}});
  EXPECT_EQ(counts.got, 3u);
  EXPECT_EQ(counts.given_back, 1u);
}

}  // namespace
}  // namespace gpumem::plan
