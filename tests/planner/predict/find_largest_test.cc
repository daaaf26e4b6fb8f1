// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "absl/status/status.h"
#include "planner/predict/vary.h"

namespace gpumem::plan {
namespace {

using Need = std::function<uint64_t(int64_t)>;

std::vector<int64_t> Range(int64_t first, int64_t last) {
  std::vector<int64_t> values(static_cast<size_t>(last - first + 1));
  std::iota(values.begin(), values.end(), first);
  return values;
}

struct Search {
  Largest found;
  size_t tries = 0;
  bool was_near = false;  // the largest, when it was tried
};

// Looks with FindLargest, and compares with trying every value.
Search Look(const std::vector<int64_t>& values, uint64_t limit, const Need& need) {
  Search search;
  std::set<int64_t> tried;
  std::set<int64_t> near;
  const absl::StatusOr<Largest> found =
      FindLargest(values, limit, [&](int64_t value, bool is_near) -> absl::StatusOr<uint64_t> {
        if (is_near) near.insert(value);
        EXPECT_TRUE(std::binary_search(values.begin(), values.end(), value)) << value;
        EXPECT_TRUE(tried.insert(value).second) << value << " was tried twice";
        return need(value);
      });
  EXPECT_TRUE(found.ok()) << found.status();
  if (!found.ok()) return search;
  std::optional<int64_t> fits, too_big;
  for (const int64_t value : values) {
    if (need(value) <= limit) fits = value;
    if (need(value) > limit && !too_big.has_value()) too_big = value;
  }
  EXPECT_EQ(found->fits, fits);
  search.was_near = fits.has_value() && near.contains(*fits);
  EXPECT_EQ(found->too_big, too_big);
  EXPECT_EQ(found->bytes.size(), tried.size());
  for (const auto& [value, bytes] : found->bytes) EXPECT_EQ(bytes, need(value));
  search.found = *found;
  search.tries = tried.size();
  return search;
}

TEST(FindLargestTest, ALineTakesFewTries) {
  const std::vector<int64_t> values = Range(1, 64);
  for (uint64_t largest = 1; largest < 64; ++largest) {
    for (const uint64_t rest : {0u, 1u, 500u, 999u})
      EXPECT_LE(Look(values, 7000 + largest * 1000 + rest, [](int64_t n) { return 7000 + 1000u * n; }).tries, 4u)
          << largest << " " << rest;
  }
}

// So the run of the largest value can be the one that is reported.
TEST(FindLargestTest, TheLargestOfALineIsTriedAmongTheLast) {
  for (int64_t largest = 2; largest <= 64; ++largest) {
    const uint64_t limit = 7000 + static_cast<uint64_t>(largest) * 1000 + 500;
    EXPECT_TRUE(Look(Range(1, 64), limit, [](int64_t n) { return 7000 + 1000u * n; }).was_near) << largest;
  }
}

TEST(FindLargestTest, ALongLineTakesNoMore) {
  EXPECT_LE(Look(Range(1, 100'000), 5'000'123, [](int64_t n) { return 70'000 + 100u * n; }).tries, 4u);
}

// As memory mostly grows: attention by the square of a length, segments in steps of 2 MiB and more.
TEST(FindLargestTest, SquaresAndStepsTakeHardlyMoreThanHalving) {
  size_t most = 0;
  for (uint64_t limit = 1000; limit < 4'200'000; limit += 10'007) {
    most =
        std::max(most, Look(Range(1, 64), limit, [](int64_t n) { return static_cast<uint64_t>(n * n) << 10; }).tries);
    most = std::max(most,
                    Look(Range(1, 64), limit, [](int64_t n) { return (static_cast<uint64_t>(n) / 10) << 19; }).tries);
  }
  EXPECT_LE(most, 2u + 6u + 2u);
}

TEST(FindLargestTest, AllFitOrNoneDoes) {
  const Search all = Look(Range(1, 64), 100, [](int64_t) { return 100; });
  EXPECT_EQ(all.tries, 2u);
  EXPECT_EQ(all.found.fits, 64);
  const Search none = Look(Range(1, 64), 99, [](int64_t) { return 100; });
  EXPECT_EQ(none.tries, 1u);
  EXPECT_EQ(none.found.too_big, 1);
}

TEST(FindLargestTest, OneValueIsTriedOnce) {
  EXPECT_EQ(Look({5}, 10, [](int64_t) { return 10; }).tries, 1u);
  EXPECT_EQ(Look({5}, 10, [](int64_t) { return 11; }).tries, 1u);
}

TEST(FindLargestTest, ValuesMayLieFarApart) {
  Look({1, 2, 1000, 1'000'000}, 5000, [](int64_t n) { return 10u * n; });
  Look({-8, 0, 3}, 5, [](int64_t n) { return n < 0 ? 1 : n == 0 ? 5 : 6; });
}

// A run that fails says nothing of how much it would need.
TEST(FindLargestTest, RunsThatFailAreHalvedTo) {
  for (int64_t last = 1; last < 1000; last += 7) {
    const Search search = Look(Range(1, 1000), 1'000'000, [&](int64_t n) { return n <= last ? 100u * n : UINT64_MAX; });
    EXPECT_LE(search.tries, 2u + 10u) << last;
  }
}

TEST(FindLargestTest, IsRightForAnythingThatGrows) {
  std::mt19937 random(7);
  const auto below = [&](uint64_t limit) { return random() % limit; };
  for (int round = 0; round < 2000; ++round) {
    std::set<int64_t> values;
    const size_t count = 1 + below(40);
    const uint64_t spread = uint64_t{1} << (2 + below(30));
    while (values.size() < count) values.insert(static_cast<int64_t>(below(spread + 40)) - 20);
    std::map<int64_t, uint64_t> needs;
    uint64_t need = below(1000);
    for (const int64_t value : values) {
      if (below(3) != 0) need += below(uint64_t{1} << (1 + below(40)));
      if (below(60) == 0) need = std::max(need, UINT64_MAX / 2);
      needs[value] = need;
    }
    const uint64_t one = std::next(needs.begin(), static_cast<int64_t>(below(count)))->second;
    const uint64_t limit = one - std::min(one, below(2));
    const Search search = Look({values.begin(), values.end()}, limit, [&](int64_t value) { return needs.at(value); });
    EXPECT_LE(search.tries, 2u + 6u + 2u);
    if (HasFailure()) break;
  }
}

TEST(FindLargestTest, AnErrorEndsIt) {
  for (const size_t good : {0, 1, 2, 3}) {
    size_t tries = 0;
    const absl::Status status = FindLargest(Range(1, 64), 3000, [&](int64_t n, bool) -> absl::StatusOr<uint64_t> {
                                  if (tries++ == good) return absl::UnavailableError("no process");
                                  return n < 9 ? 100 * n : 1000 * n;
                                }).status();
    EXPECT_TRUE(absl::IsUnavailable(status));
    EXPECT_EQ(tries, good + 1);
  }
}

}  // namespace
}  // namespace gpumem::plan
