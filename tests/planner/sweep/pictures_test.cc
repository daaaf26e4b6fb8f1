// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/sweep/pictures/pictures.h"

#include <gmock/gmock.h>

#include <limits>

#include "../charts/marks.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "example_rows.h"

namespace gpumem::plan {
namespace {

using plots::testing::OddNumbers;
using plots::testing::OverlappingTexts;
using plots::testing::TextsBeyondTheEdge;
using plots::testing::Words;
using testing::AnswerOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kGiB;
using testing::kMiB;
using ::testing::Not;
using testing::RowOf;

std::vector<plots::Canvas> AllPictures(const SweepAnswer& answer) {
  std::vector<plots::Canvas> all;
  for (const auto& figure : {OverviewFigure, HeatmapFigure, DetailedFigure, OperationsFigure})
    all.push_back(plots::DrawFigure(figure(answer)));
  if (!answer.rows.empty()) all.push_back(plots::DrawFigure(TimelineFigure(answer, answer.rows.back())));
  return all;
}

void ExpectGoodPictures(const SweepAnswer& answer, const std::string& what) {
  const std::vector<plots::Canvas> all = AllPictures(answer);
  for (size_t i = 0; i < all.size(); ++i) {
    SCOPED_TRACE(absl::StrCat(what, ", picture ", i));
    EXPECT_THAT(OverlappingTexts(all[i]), IsEmpty());
    EXPECT_THAT(TextsBeyondTheEdge(all[i]), IsEmpty());
    EXPECT_THAT(Words(all[i]), Contains(HasSubstr(answer.simulated ? "Simulated, no GPU used" : "Measured on a GPU")));
    EXPECT_THAT(OddNumbers(all[i]), IsEmpty());
  }
}

TEST(PicturesTest, AnyRowsGiveReadablePictures) {
  ExpectGoodPictures(AnswerOf(testing::GptRows()), "gpt");
  ExpectGoodPictures(AnswerOf(testing::PrivateRows()), "private");
  ExpectGoodPictures(AnswerOf(testing::GptRows(kMiB)), "all out of memory");
  ExpectGoodPictures(AnswerOf({}), "none");
  ExpectGoodPictures(AnswerOf({testing::GptRows()[4]}), "one");
  ExpectGoodPictures(AnswerOf({SweepRow()}), "an empty one");
  SweepAnswer measured = AnswerOf(testing::GptRows());
  measured.simulated = false;
  ExpectGoodPictures(measured, "on a gpu");
}

TEST(PicturesTest, ManyRowsAndHugeValues) {
  std::vector<SweepRow> rows;
  for (int i = 1; i <= 200; ++i)
    rows.push_back(RowOf(i, {{"n", absl::StrCat(i)}, {"optimizer", i % 2 == 0 ? "adam" : "sgd"}}, i * kGiB));
  rows[150].state = RowState::kTimedOut;
  ExpectGoodPictures(AnswerOf(rows), "200 rows");
  rows.resize(3);
  for (SweepRow& row : rows) {
    row.peak_allocated = row.peak_reserved = row.peak_process = std::numeric_limits<uint64_t>::max();
    row.categories["parameter"] = row.peak_allocated;
    row.components.push_back({"mlp", {{"parameter", row.peak_allocated}}, {{"forward", row.peak_allocated}}});
    row.timeline = {{0, 0, 0, 0}, {1e12, row.peak_allocated, row.peak_allocated, 0}};
    row.seconds = 1e12;
    row.values = {{std::string(300, 'a'), absl::StrCat(row.number, std::string(200, '0'))},
                  {"显存", "<script>"},
                  {"\xff", "\x1b[31m"}};
  }
  ExpectGoodPictures(AnswerOf(rows), "huge");
}

TEST(PicturesTest, OverviewHasAPanelForEachAxis) {
  const plots::Canvas canvas = plots::DrawFigure(OverviewFigure(AnswerOf(testing::GptRows())));
  EXPECT_THAT(Words(canvas),
              ::testing::IsSupersetOf({"Memory of 20 configurations", "Peak by seq_len", "Peak by batch_size",
                                       "capacity 24 GiB", "does not fit", "out of memory", "17", "3"}));
  std::vector<SweepRow> rows = {RowOf(1, {{"optimizer", "adam"}, {"lr", "1"}}, 4 * kGiB),
                                RowOf(2, {{"optimizer", "sgd"}, {"lr", "1"}}, 2 * kGiB)};
  const plots::Canvas named = plots::DrawFigure(OverviewFigure(AnswerOf(rows)));
  EXPECT_THAT(Words(named), ::testing::IsSupersetOf({"Largest peak by optimizer", "adam", "sgd", "4 GiB",
                                                     "lr was 1 "
                                                     "throughout."}));
}

TEST(PicturesTest, HeatmapMarksWhatDoesNotFitWithItsSize) {
  const plots::Canvas canvas = plots::DrawFigure(HeatmapFigure(AnswerOf(testing::GptRows())));
  EXPECT_THAT(Words(canvas), Contains("OOM").Times(3));
  EXPECT_THAT(Words(canvas), ::testing::IsSupersetOf({"68.7 GiB", "26.3 GiB", "35.6 GiB", "2.74 GiB"}));
  // Further axes: a panel for each of their combinations, here 3 x 2, with the failed run told.
  const plots::Figure figure = HeatmapFigure(AnswerOf(testing::PrivateRows()));
  ASSERT_EQ(figure.rows.size(), 2u);
  EXPECT_EQ(figure.rows[1].panels.size(), 3u);
  EXPECT_EQ(figure.rows[0].panels[0].title, "batch_size 8, lora_rank 8");
  EXPECT_THAT(Words(plots::DrawFigure(figure)), Contains("failed"));
}

TEST(PicturesTest, OutOfMemoryOnAGpuMayLackTheSize) {
  std::vector<SweepRow> rows = {RowOf(1, {{"n", "1"}}, kGiB), RowOf(2, {{"n", "2"}}, 0)};
  rows[1].state = RowState::kOutOfMemory;
  rows[1].peak_reserved = rows[1].peak_process = 0;
  EXPECT_THAT(Words(plots::DrawFigure(HeatmapFigure(AnswerOf(rows)))), Contains("OOM"));
  ExpectGoodPictures(AnswerOf(rows), "unknown size");
}

TEST(PicturesTest, TimelineMarksThePeak) {
  const SweepAnswer answer = AnswerOf(testing::GptRows());
  const plots::Canvas canvas = plots::DrawFigure(TimelineFigure(answer, answer.rows[19]));
  EXPECT_THAT(Words(canvas), ::testing::IsSupersetOf({"peak 64.31 GiB", "allocated", "reserved", "capacity 24 GiB",
                                                      "out of memory: the process needs 68.71 GiB"}));
}

TEST(PicturesTest, DetailedTellsMemoryTypesAndComponents) {
  const plots::Canvas canvas = plots::DrawFigure(DetailedFigure(AnswerOf(testing::PrivateRows())));
  EXPECT_THAT(Words(canvas), ::testing::IsSupersetOf({"attention", "MLP", "LoRA", "embedding", "norm", "parameters",
                                                      "activations", "gradients", "optimizer state"}));
  EXPECT_THAT(Words(canvas), Contains(HasSubstr("per-sample")));
  const plots::Canvas operations = plots::DrawFigure(OperationsFigure(AnswerOf(testing::PrivateRows())));
  EXPECT_THAT(Words(operations), ::testing::IsSupersetOf({"forward", "backward", "optimizer", "attention"}));
}

TEST(PicturesTest, TheSameThingHasTheSameColour) {
  for (const char* name : {"parameter", "activation", "gradient", "something new"})
    EXPECT_EQ(MemoryTypeColor(name), MemoryTypeColor(name));
  const std::vector<std::string> types = {"parameter",       "gradient",   "per_sample_gradient",
                                          "optimizer_state", "activation", "temporary",
                                          "input",           "workspace"};
  for (size_t i = 0; i < types.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_NE(MemoryTypeColor(types[i]), MemoryTypeColor(types[j]));
  }
}

TEST(PicturesTest, NoTwoComponentsHaveTheSameColour) {
  const std::vector<std::string> names = {
      "attention", "mlp",     "embedding", "norm",          "lora",         "head",     "conv",      "linear",
      "dropout",   "loss",    "root",      "block",         "nonlinearity", "pooling",  "workspace", "input",
      "rotary",    "library", "kv_cache",  "communication", "graph_pool",   "optimizer"};
  for (size_t i = 0; i < names.size(); ++i) {
    for (size_t j = 0; j < i; ++j)
      EXPECT_NE(ComponentColor(names[i]), ComponentColor(names[j])) << names[i] << names[j];
  }
}

TEST(PicturesTest, WhereAllFitNoCircleIsDrawn) {
  const plots::Figure figure = OverviewFigure(AnswerOf({RowOf(1, {{"n", "1"}}, kGiB), RowOf(2, {{"n", "2"}}, kGiB)}));
  for (const plots::FigureRow& row : figure.rows) {
    for (const plots::Panel& panel : row.panels)
      EXPECT_FALSE(std::holds_alternative<plots::PieChart>(panel.chart)) << panel.title;
  }
  EXPECT_THAT(Words(plots::DrawFigure(figure)), ::testing::IsSupersetOf({"fits", "2"}));
}

}  // namespace
}  // namespace gpumem::plan
