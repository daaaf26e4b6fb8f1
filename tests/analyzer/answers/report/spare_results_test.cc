// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/report/spare_results.h"

#include <gmock/gmock.h>

namespace gpumem {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint64_t kJoin = 1, kProduct = 2, kCopy = 3, kLater = 4;
constexpr uint64_t kRows = 4096, kWidth = 32000, kLogits = kRows * kWidth * 2;

// A loop that joins `rounds` results, each larger than the last by one.
void JoinAll(uint64_t rounds, SpareResults* results, uint64_t from = 0) {
  for (uint64_t i = 0; i < rounds; ++i)
    results->Take({from + 2 * i, from + 2 * i + 3, 100 + i, kJoin}, 0, ResultOf::kJoin, true);
}

TEST(SpareResults, NamesOfOperators) {
  EXPECT_EQ(ResultOfOperator("aten::linear"), ResultOf::kProduct);
  EXPECT_EQ(ResultOfOperator("aten::softmax_int"), ResultOf::kAlike);
  EXPECT_EQ(ResultOfOperator("aten::to_dtype"), ResultOf::kCopy);
  EXPECT_EQ(ResultOfOperator("aten::to_dtype_layout"), ResultOf::kOther);
  EXPECT_EQ(ResultOfOperator("aten::mmm"), ResultOf::kOther);
  EXPECT_EQ(ResultOfOperator("mm"), ResultOf::kOther);
}

TEST(SpareResults, WhatALoopJoins) {
  SpareResults results(1000, 10, {});
  JoinAll(8, &results);
  JoinAll(9, &results, 100);  // once more, from the beginning
  JoinAll(7, &results, 200);  // too few to say so
  EXPECT_THAT(results.Joined(), SizeIs(17));
}

TEST(SpareResults, CachesOfSeveralLayersAreNotJoinedResults) {
  SpareResults results(1000, 10, {});
  for (uint64_t token = 0; token < 20; ++token) {
    for (uint64_t layer = 0; layer < 4; ++layer) {
      const uint64_t born = 10 * token + 2 * layer;
      results.Take({born, born + 11, 100 + token, kJoin}, 0, ResultOf::kJoin, true);
    }
  }
  EXPECT_THAT(results.Joined(), IsEmpty());
}

// A product of the model's widest matrix, copied in another type, of which `next` is made.
std::vector<LifeSpan> LittleUsed(const LifeSpan& next, uint64_t requested, ResultOf of,
                                 absl::flat_hash_set<uint64_t> widths = {kWidth}) {
  SpareResults results(10 * kLogits, 20, std::move(widths));
  results.Take({10, 21, kLogits, kProduct}, kLogits, ResultOf::kProduct, true);
  results.Take(next, requested, of, true);
  results.Take({20, 40, 2 * kLogits, kCopy}, 2 * kLogits, ResultOf::kCopy, true);
  return results.LittleUsed();
}

TEST(SpareResults, TheLogitsOfAllPositionsWhereOneIsUsed) {
  EXPECT_THAT(LittleUsed({25, 30, 512, kLater}, 0, ResultOf::kIndices), SizeIs(2)) << "the product and its copy";
  EXPECT_THAT(LittleUsed({25, 30, 1024, kLater}, 800, ResultOf::kIndices), SizeIs(2));
  EXPECT_THAT(LittleUsed({25, 30, 4 * kWidth, kLater}, 4 * kWidth, ResultOf::kAlike), SizeIs(2));
}

TEST(SpareResults, WhatIsUsedAsAWholeIsNeeded) {
  EXPECT_THAT(LittleUsed({25, 30, 8 * kRows, kLater}, 8 * kRows, ResultOf::kIndices), IsEmpty()) << "of all rows";
  EXPECT_THAT(LittleUsed({25, 30, 2 * kLogits, kLater}, 2 * kLogits, ResultOf::kAlike), IsEmpty());
  EXPECT_THAT(LittleUsed({25, 30, 512, kLater}, 4, ResultOf::kOther), IsEmpty()) << "a mean, perhaps";
}

TEST(SpareResults, WhatIsNotSeenIsNotSaid) {
  EXPECT_THAT(LittleUsed({25, 30, 512, kLater}, 8, ResultOf::kIndices, {}), IsEmpty()) << "no matrix is known";
  EXPECT_THAT(LittleUsed({25, 30, 512, kLater}, 8, ResultOf::kIndices, {7777}), IsEmpty()) << "of none that made it";
  EXPECT_THAT(LittleUsed({45, 50, 512, kLater}, 8, ResultOf::kIndices), IsEmpty()) << "made when it was gone";
}

}  // namespace
}  // namespace gpumem
