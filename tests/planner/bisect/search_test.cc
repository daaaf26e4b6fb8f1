// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/bisect/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace gpumem::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::SizeIs;

using Bytes = std::vector<std::optional<uint64_t>>;

HistorySearch::Look In(const Bytes& bytes) {
  return [bytes](size_t index) { return absl::StatusOr<std::optional<uint64_t>>(bytes.at(index)); };
}

Bytes Constant(size_t count, uint64_t bytes) { return Bytes(count, bytes); }

TEST(HistorySearchTest, FindsTheOneStepOfALongHistoryInFewLooks) {
  Bytes bytes = Constant(1000, 700);
  for (size_t i = 613; i < bytes.size(); ++i) bytes[i] = 800;
  HistorySearch search(bytes.size(), In(bytes));
  ASSERT_TRUE(search.FindSteps({.most_looks = 2}).ok());
  const std::vector<HistoryStep> steps = search.steps();
  ASSERT_THAT(steps, SizeIs(1));
  EXPECT_EQ(steps[0].before, 612);
  EXPECT_EQ(steps[0].after, 613);
  EXPECT_EQ(steps[0].change, 100);
  EXPECT_THAT(search.looks(), SizeIs(Le(12)));
}

// What does not run is passed over, as git bisect skip does.
TEST(HistorySearchTest, StatesThatDoNotRunAreNamedBetweenTheTwo) {
  Bytes bytes = Constant(40, 700);
  for (size_t i = 22; i < bytes.size(); ++i) bytes[i] = 800;
  bytes[20] = bytes[21] = bytes[22] = std::nullopt;
  HistorySearch search(bytes.size(), In(bytes));
  ASSERT_TRUE(search.FindSteps({}).ok());
  ASSERT_THAT(search.steps(), SizeIs(1));
  EXPECT_EQ(search.steps()[0].before, 19);
  EXPECT_EQ(search.steps()[0].after, 23);
  EXPECT_EQ(search.steps()[0].failed, 3);
  EXPECT_EQ(search.steps()[0].unlooked, 0);
}

TEST(HistorySearchTest, UpAndDownBetweenEndsThatNeedTheSame) {
  HistorySearch search(7, In({615, 615, 3422, 3422, 1350, 642, 615}));
  ASSERT_TRUE(search.FindSteps({}).ok());
  const std::vector<HistoryStep> steps = search.steps();
  ASSERT_THAT(steps, SizeIs(4));
  EXPECT_EQ(steps[0].after, 2);
  EXPECT_EQ(steps[1].after, 4);
  EXPECT_EQ(steps[2].after, 5);
  EXPECT_EQ(steps[3].change, -27);
}

TEST(HistorySearchTest, EndsThatDoNotRunMoveInwards) {
  HistorySearch search(5, In({std::nullopt, 10, 10, 20, std::nullopt}));
  ASSERT_TRUE(search.FindSteps({}).ok());
  EXPECT_EQ(search.first(), 1);
  EXPECT_EQ(search.last(), 3);
  EXPECT_EQ(search.steps()[0].after, 3);
}

TEST(HistorySearchTest, NothingRuns) {
  HistorySearch search(3, In({std::nullopt, std::nullopt, std::nullopt}));
  ASSERT_TRUE(search.FindSteps({}).ok());
  EXPECT_THAT(search.steps(), IsEmpty());
  EXPECT_EQ(search.first(), std::nullopt);
}

TEST(HistorySearchTest, AThresholdTakesLogarithmicallyManyLooks) {
  for (const size_t crossing : {1, 2, 17, 500, 1022, 1023}) {
    Bytes bytes = Constant(1024, 100);
    for (size_t i = crossing; i < bytes.size(); ++i) bytes[i] = 200;
    HistorySearch search(bytes.size(), In(bytes));
    ASSERT_TRUE(search.FindFirstAbove(150).ok());
    ASSERT_TRUE(search.crossing().has_value());
    EXPECT_EQ(search.crossing()->after, crossing);
    EXPECT_THAT(search.looks(), SizeIs(Le(12)));
  }
}

TEST(HistorySearchTest, NoCrossingWhereBothEndsAreOnOneSide) {
  HistorySearch search(4, In({100, 100, 100, 100}));
  ASSERT_TRUE(search.FindFirstAbove(150).ok());
  EXPECT_FALSE(search.crossing().has_value());
  HistorySearch above(4, In({200, 200, 200, 200}));
  ASSERT_TRUE(above.FindFirstAbove(150).ok());
  EXPECT_FALSE(above.crossing().has_value());
}

// Whatever the history: the largest step is found where all of it is looked at, and what is reported is true.
TEST(HistorySearchTest, StepsAreTrueOfAnyHistory) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    Bytes bytes(1 + random() % 40);
    uint64_t level = 1000;
    for (auto& each : bytes) {
      if (random() % 8 == 0) level = 500 + random() % 1000;
      each = random() % 6 == 0 ? std::nullopt : std::optional<uint64_t>(level);
    }
    HistorySearch search(bytes.size(), In(bytes));
    ASSERT_TRUE(search.FindSteps({.most_looks = bytes.size()}).ok());
    int64_t largest = 0;
    std::optional<uint64_t> last;
    for (const auto& each : bytes) {
      if (!each.has_value()) continue;
      if (last.has_value())
        largest = std::max(largest, std::abs(static_cast<int64_t>(*each) - static_cast<int64_t>(*last)));
      last = each;
    }
    const std::vector<HistoryStep> steps = search.steps();
    EXPECT_EQ(steps.empty() ? 0 : std::abs(steps[0].change), largest);
    for (const HistoryStep& step : steps) {
      EXPECT_EQ(static_cast<int64_t>(*bytes[step.after]) - static_cast<int64_t>(*bytes[step.before]), step.change);
      EXPECT_EQ(step.failed + step.unlooked, step.after - step.before - 1);
    }
  }
}

using Set = SmallestSet::Set;

std::vector<size_t> Made(const Set& set) {
  std::vector<size_t> made;
  for (size_t i = 0; i < set.size(); ++i) {
    if (set[i]) made.push_back(i);
  }
  return made;
}

std::vector<size_t> Smallest(size_t count, const std::function<std::optional<uint64_t>(const Set&)>& bytes,
                             size_t* looks) {
  SmallestSet search(count, [&](const Set& set) { return absl::StatusOr<std::optional<uint64_t>>(bytes(set)); });
  const auto found = search.Find();
  EXPECT_TRUE(found.ok());
  if (looks != nullptr) *looks = search.looks();
  return found.ok() && found->has_value() ? Made(**found) : std::vector<size_t>();
}

TEST(SmallestSetTest, OneOfMany) {
  size_t looks = 0;
  const auto bytes = [](const Set& set) { return 400u + (set[11] ? 80u : 0u) + (set[3] ? 1u : 0u); };
  EXPECT_THAT(Smallest(13, bytes, &looks), ElementsAre(11));
  EXPECT_THAT(looks, Le(12));
}

TEST(SmallestSetTest, TwoThatOnlyActTogether) {
  size_t looks = 0;
  const auto bytes = [](const Set& set) { return 500u + (set[2] && set[12] ? 160u : 0u); };
  EXPECT_THAT(Smallest(14, bytes, &looks), ElementsAre(2, 12));
  EXPECT_THAT(looks, Le(40));
}

TEST(SmallestSetTest, SeveralThatAddUp) {
  const auto bytes = [](const Set& set) { return 500u + (set[1] ? 60u : 0u) + (set[5] ? 40u : 0u); };
  EXPECT_THAT(Smallest(8, bytes, nullptr), ElementsAre(1, 5));
}

TEST(SmallestSetTest, SavingsCount) {
  const auto bytes = [](const Set& set) { return 500u - (set[4] ? 100u : 0u); };
  EXPECT_THAT(Smallest(6, bytes, nullptr), ElementsAre(4));
}

TEST(SmallestSetTest, MixesThatDoNotRun) {
  const auto bytes = [](const Set& set) -> std::optional<uint64_t> {
    if (set[0] != set[1]) return std::nullopt;  // these two must go together
    return 500u + (set[0] ? 100u : 0u);
  };
  EXPECT_THAT(Smallest(9, bytes, nullptr), ElementsAre(0, 1));
}

TEST(SmallestSetTest, NoDifference) {
  EXPECT_THAT(Smallest(
                  5, [](const Set&) { return 500u; }, nullptr),
              IsEmpty());
}

}  // namespace
}  // namespace gpumem::plan
