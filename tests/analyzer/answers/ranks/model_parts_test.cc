// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/ranks/model_parts.h"

#include <gmock/gmock.h>

#include "ranks.h"

namespace gpumem {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using testing::HoldParameters;
using testing::MakeRanks;

constexpr uint64_t kLayers = 1, kEmbedding = 2, kHead = 3;

TEST(ModelPartsTest, EqualNamesAreOnePart) {
  std::vector<RankSummary> ranks = MakeRanks(4, 100);
  for (RankSummary& rank : ranks) HoldParameters({1, 2, 3, 4}, kLayers, &rank);
  EXPECT_THAT(PartsOfModel(ranks), Each(0));
}

TEST(ModelPartsTest, WithoutParametersTooThereIsOnePart) { EXPECT_THAT(PartsOfModel(MakeRanks(4, 100)), Each(0)); }

TEST(ModelPartsTest, StagesOfAPipelineWithCopies) {
  std::vector<RankSummary> ranks = MakeRanks(4, 100);
  for (const size_t first : {0u, 2u}) {
    HoldParameters({1, 2}, kLayers, &ranks[first]);
    HoldParameters({100}, kEmbedding, &ranks[first]);
    HoldParameters({3, 4}, kLayers, &ranks[first + 1]);
    HoldParameters({101}, kHead, &ranks[first + 1]);
  }
  EXPECT_THAT(PartsOfModel(ranks), ElementsAre(0, 1, 0, 1));
}

TEST(ModelPartsTest, StagesThatNumberTheirOwnLayers) {
  std::vector<RankSummary> ranks = MakeRanks(4, 100);
  for (RankSummary& rank : ranks) HoldParameters({1, 2}, kLayers, &rank);
  HoldParameters({100}, kEmbedding, &ranks[0]);
  HoldParameters({101}, kHead, &ranks[3]);
  EXPECT_THAT(PartsOfModel(ranks), ElementsAre(0, 1, 1, 2));
}

TEST(ModelPartsTest, OneLayerMoreIsNoPartOfItsOwn) {
  std::vector<RankSummary> ranks = MakeRanks(4, 100);
  for (RankSummary& rank : ranks) HoldParameters({1, 2, 3}, kLayers, &rank);
  HoldParameters({4}, kLayers, &ranks[2]);
  EXPECT_THAT(PartsOfModel(ranks), Each(0));
}

TEST(ModelPartsTest, OneLayerMoreInAStageIsInThatStage) {
  std::vector<RankSummary> ranks = MakeRanks(6, 100);
  for (size_t i = 0; i < 6; ++i)
    HoldParameters(i % 2 == 0 ? std::vector<uint64_t>{1, 2, 3} : std::vector<uint64_t>{4, 5, 6}, kLayers, &ranks[i]);
  HoldParameters({7}, kLayers, &ranks[3]);
  EXPECT_THAT(PartsOfModel(ranks), ElementsAre(0, 1, 0, 1, 0, 1));
}

TEST(ModelPartsTest, OneRankWithAnotherModelIsAnOutlier) {
  std::vector<RankSummary> ranks = MakeRanks(5, 100);
  for (size_t i = 0; i < 5; ++i)
    HoldParameters(i == 3 ? std::vector<uint64_t>{7, 8} : std::vector<uint64_t>{1, 2}, kLayers, &ranks[i]);
  EXPECT_THAT(PartsOfModel(ranks), Each(0));
}

TEST(ModelPartsTest, AShareOfNothingIsNoDifference) {
  std::vector<RankSummary> ranks = MakeRanks(3, 100);
  for (RankSummary& rank : ranks) HoldParameters({1, 2}, kLayers, &rank);
  ranks[0].parameters.push_back({9, kHead, 1});  // of FSDP: the only row of a norm
  ranks[1].parameters.push_back({8, kHead, 1});
  EXPECT_THAT(PartsOfModel(ranks), Each(0));
}

TEST(PartsOfModel, StagesWithEqualParametersAreParts) {
  std::vector<RankSummary> ranks = testing::MakeRanks(4, 100);
  for (RankSummary& rank : ranks) {
    testing::HoldParameters({1, 2}, 3, &rank);
    rank.roles = {{"pp", static_cast<uint32_t>(rank.rank / 2), 2}, {"tp", static_cast<uint32_t>(rank.rank % 2), 2}};
  }
  EXPECT_THAT(PartsOfModel(ranks), ElementsAre(0, 0, 1, 1));
  ranks[3].roles.clear();
  EXPECT_THAT(PartsOfModel(ranks), ElementsAre(0, 0, 0, 0)) << "of one it is not known";
}

}  // namespace
}  // namespace gpumem
