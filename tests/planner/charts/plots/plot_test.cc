// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/charts/plots/plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "planner/charts/plots/plot_parts.h"
#include "testing/training_trace.h"
#include "web/page_trace.h"

namespace gpumem::plan {
namespace {

using testing::Call;
using testing::Code;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TrainingTrace;

constexpr uint64_t kMiB = 1 << 20, kAt = 0x7f0000000000;

// Six steps of 40 MiB by one module that each keep 3 MiB, in a segment of 500 MiB on a GPU of 1 GiB.
PageTrace Training(uint64_t wait_ns = 0, uint64_t steps = 6) {
  TrainingTrace trace;
  testing::TraceBuilder& builder = trace.builder();
  builder.Device(0, "GPU", 1024 * kMiB);
  const uint32_t model = trace.Root("Net"), layer = trace.Module(model, "mlp", "MLP"), sgd = trace.Optimizer("SGD");
  const uint64_t forward = trace.Stack(
      {Code("MLP.forward", "/job/model.py", 7), Call(layer), Call(model), Code("<module>", "/job/train.py", 9)});
  const uint64_t kept = trace.Stack({Code("remember", "/job/cache.py", 88), Code("<module>", "/job/train.py", 9)});
  builder.CudaAlloc(kAt, 500 * kMiB, forward);
  builder.AtTime(builder.time_ns() + wait_ns);
  for (uint64_t step = 0; step < steps; ++step) {
    builder.TorchAlloc(kAt, 40 * kMiB, forward).TorchFree(kAt, 40 * kMiB);
    builder.TorchAlloc(kAt + (100 + step * 4) * kMiB, 3 * kMiB, kept);
    builder.AtTime(builder.time_ns() + 1'000'000'000);
    trace.StepBegins(sgd).StepEnds(sgd);
  }
  builder.End();
  LoadRequest request;
  request.place = builder.WriteTemporary();
  auto loaded = LoadTrace(request);
  EXPECT_TRUE(loaded.ok());
  auto read = ReadPageTrace(*std::move(loaded), PageLimits(), "", nullptr);
  EXPECT_TRUE(read.ok()) << read.status();
  return *std::move(read);
}

absl::StatusOr<plots::Figure> Plot(PlotKind kind, PageLayer by = PageLayer::kLine) {
  const PageTrace trace = Training();
  return MakePlot({.kind = kind, .by = by, .events = true},
                  {{trace.loaded.get(), trace.pass.get(), trace.attribution.get(), "run"}});
}

template <typename Chart>
Chart ChartOf(PlotKind kind, PageLayer by = PageLayer::kLine) {
  const auto figure = Plot(kind, by);
  EXPECT_TRUE(figure.ok()) << figure.status();
  return std::get<Chart>(figure->rows.at(0).panels.at(0).chart);
}

double Highest(const plots::LineSeries& series) {
  double most = 0;
  for (const plots::Point& point : series.points) most = std::max(most, point.y);
  return most;
}

TEST(Plot, EveryKindHasItsNameAndDraws) {
  for (const PlotKindInfo& each : PlotKinds()) {
    EXPECT_EQ(PlotKindNamed(each.name), each.kind);
    const auto figure = Plot(each.kind);
    ASSERT_TRUE(figure.ok()) << each.name << ": " << figure.status();
    EXPECT_GT(plots::DrawFigure(*figure).marks().size(), 8u) << each.name;
    const char* const said = each.kind == PlotKind::kComparison ? "its own highest moment" : "55 MiB allocated";
    EXPECT_THAT(figure->subtitle, HasSubstr(said)) << each.name;
  }
  EXPECT_EQ(PlotKindNamed("pie"), std::nullopt);
}

TEST(Plot, NamesOfTracesLoseWhatAllHave) {
  EXPECT_THAT(TellingParts({"gpumemshim.train.41", "gpumemshim.train.42"}), ElementsAre("41", "42"));
  EXPECT_THAT(TellingParts({"run-1-old.x", "run-12-old.x"}), ElementsAre("1", "12"));
  EXPECT_THAT(TellingParts({"before", "behind"}), ElementsAre("before", "behind")) << "within a word";
  EXPECT_THAT(TellingParts({"a.b", "a.b"}), ElementsAre("a.b", "a.b"));
  EXPECT_THAT(TellingParts({"a.", "a.b"}), ElementsAre("a.", "a.b"));
  EXPECT_THAT(TellingParts({"alone.train.7"}), ElementsAre("alone.train.7"));
  EXPECT_THAT(TellingParts({"", ""}), ElementsAre("", ""));
}

TEST(Plot, OneLongWaitIsNotDrawn) {
  for (const auto& [wait_ns, title] : {std::pair{uint64_t{0}, ""}, std::pair{uint64_t{600'000'000'000}, "events"}}) {
    const PageTrace trace = Training(wait_ns, 30);
    const auto figure =
        MakePlot({.by = PageLayer::kLine}, {{trace.loaded.get(), trace.pass.get(), trace.attribution.get(), "run"}});
    ASSERT_TRUE(figure.ok()) << figure.status();
    EXPECT_EQ(std::get<plots::LineChart>(figure->rows.at(0).panels.at(0).chart).x_title, title);
  }
}

TEST(Plot, TheLayersOfTheTimelineAddUpToThePeak) {
  const auto chart = ChartOf<plots::LineChart>(PlotKind::kTimeline);
  // Sums, highest first: 40 MiB of forward on 15 MiB that five steps kept; then what is reserved.
  ASSERT_EQ(chart.series.size(), 3u);
  EXPECT_EQ(Highest(chart.series[0]), 55.0 * kMiB);
  EXPECT_LT(Highest(chart.series[1]), 55.0 * kMiB);
  EXPECT_EQ(Highest(chart.series[2]), 500.0 * kMiB);
  EXPECT_TRUE(chart.series[0].solid);
  ASSERT_TRUE(chart.limit.has_value());
  EXPECT_EQ(chart.limit->value, 1024.0 * kMiB);
  ASSERT_EQ(chart.callouts.size(), 1u);
  EXPECT_EQ(chart.callouts[0].text, "peak 55 MiB");
}

TEST(Plot, ThePeakHasItsLines) {
  const auto chart = ChartOf<plots::BarChart>(PlotKind::kPeak);
  EXPECT_THAT(chart.categories, ElementsAre(HasSubstr("model.py:7 MLP.forward"), HasSubstr("cache.py:88 remember")));
  EXPECT_THAT(chart.series.at(0).values, ElementsAre(40.0 * kMiB, 15.0 * kMiB));
}

TEST(Plot, CategoriesHaveTheColoursThatTheyHaveEverywhere) {
  const auto bars = ChartOf<plots::BarChart>(PlotKind::kPeak, PageLayer::kCategory);
  const auto timeline = ChartOf<plots::LineChart>(PlotKind::kTimeline, PageLayer::kCategory);
  ASSERT_EQ(bars.series.size(), bars.categories.size());
  for (size_t i = 0; i < bars.categories.size(); ++i) {
    for (const plots::LineSeries& layer : timeline.series) {
      if (layer.name != bars.categories[i]) continue;
      EXPECT_EQ(layer.color.red, bars.series[i].color.red) << layer.name;
    }
    EXPECT_EQ(bars.series[i].values.size(), i + 1);
  }
}

TEST(Plot, SurvivorsRiseStepByStep) {
  const auto chart = ChartOf<plots::LineChart>(PlotKind::kLeaks);
  ASSERT_EQ(chart.series.size(), 1u);
  EXPECT_THAT(chart.series[0].name, HasSubstr("remember"));
  EXPECT_EQ(Highest(chart.series[0]), 18.0 * kMiB);
  EXPECT_EQ(chart.series[0].points.size(), 1u + 6 + 1);
}

TEST(Plot, StepsModulesAndAddresses) {
  const auto steps = ChartOf<plots::LineChart>(PlotKind::kSteps);
  EXPECT_EQ(steps.series.at(0).points.size(), 6u);
  EXPECT_EQ(steps.series.at(0).points.at(5).y, 55.0 * kMiB);
  EXPECT_EQ(steps.series.at(1).points.at(5).y, 18.0 * kMiB);
  EXPECT_THAT(ChartOf<plots::BarChart>(PlotKind::kModules).categories, ElementsAre("mlp"));
  const auto map = ChartOf<plots::SpanChart>(PlotKind::kAddresses);
  ASSERT_EQ(map.rows.size(), 1u);
  EXPECT_EQ(map.rows[0].spans.size(), 6u);
  EXPECT_EQ(map.rows[0].length, 500.0 * kMiB);
  EXPECT_EQ(map.rows[0].note, "445 MiB free");
  ASSERT_FALSE(map.legend.empty());
  for (const plots::Span& span : map.rows[0].spans) {
    EXPECT_TRUE(std::any_of(map.legend.begin(), map.legend.end(), [&](const plots::LegendEntry& each) {
      return each.color.red == span.color.red && each.color.green == span.color.green;
    })) << "a colour that nothing names";
  }
}

TEST(Plot, OfTwoRunsTheTimelineHasACurveEach) {
  const PageTrace a = Training(0, 4), b = Training();
  const auto figure = MakePlot({.events = true}, {{a.loaded.get(), a.pass.get(), a.attribution.get(), "run-before"},
                                                  {b.loaded.get(), b.pass.get(), b.attribution.get(), "run-after"}});
  ASSERT_TRUE(figure.ok()) << figure.status();
  EXPECT_EQ(figure->title, "Memory of 2 runs");
  const auto& chart = std::get<plots::LineChart>(figure->rows.at(0).panels.at(0).chart);
  ASSERT_EQ(chart.series.size(), 2u);
  EXPECT_EQ(chart.series[0].name, "before");
  EXPECT_EQ(chart.series[1].name, "after");
  EXPECT_EQ(Highest(chart.series[0]), 49.0 * kMiB);
  EXPECT_EQ(Highest(chart.series[1]), 55.0 * kMiB);
  EXPECT_TRUE(chart.limit.has_value()) << "both GPUs are of one size";
  EXPECT_GT(plots::DrawFigure(*figure).marks().size(), 8u);
}

TEST(Plot, SaysWhatATraceLacks) {
  testing::TraceBuilder builder;
  builder.Device(0, "GPU", 1024 * kMiB).CudaAlloc(kAt, kMiB).End();
  LoadRequest request;
  request.place = builder.WriteTemporary();
  auto read = ReadPageTrace(*LoadTrace(request), PageLimits(), "", nullptr);
  ASSERT_TRUE(read.ok());
  const std::vector<PlotTrace> traces{{read->loaded.get(), read->pass.get(), read->attribution.get(), "run"}};
  EXPECT_EQ(MakePlot({.kind = PlotKind::kSteps}, traces).status().message(), "this trace has no training steps");
  EXPECT_EQ(MakePlot({.kind = PlotKind::kModules}, traces).status().message(), "no module allocated in this trace");
  EXPECT_EQ(MakePlot({.device = 3}, traces).status().message(), "nothing was allocated on this GPU");
}

}  // namespace
}  // namespace gpumem::plan
