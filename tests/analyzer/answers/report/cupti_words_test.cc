// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/report/cupti_words.h"

#include <gmock/gmock.h>

#include "answers/report/sections.h"
#include "answers/report/verdict.h"
#include "fixture.h"
#include "render/draw.h"

namespace gpumem {
namespace {

using testing::Example;
using ::testing::HasSubstr;
using ::testing::Not;

CuptiBlock Block(uint64_t bytes, uint64_t from_ns, uint64_t to_ns) {
  CuptiBlock block;
  block.bytes = bytes;
  block.from_ns = from_ns;
  block.to_ns = to_ns;
  return block;
}

CuptiInfo Watched() {
  CuptiInfo cupti;
  cupti.asked = cupti.compared = true;
  cupti.state = trace::CUPTI_ENDED;
  cupti.version = 130000;
  cupti.library = "/lib/libcupti.so.13";
  return cupti;
}

std::string Head(const Example& example) {
  Document answer;
  AddHead(const_cast<Example&>(example).input(), Detail::kFull, &answer);
  return ToText(answer, {});
}

TEST(CuptiWords, NothingWhereItWasNotAsked) {
  const Example example = testing::TrainingExample();
  EXPECT_THAT(Head(example), Not(HasSubstr("CUPTI")));
}

TEST(CuptiWords, WhetherItWatched) {
  Example example = testing::TrainingExample();
  example.analysis.cupti = Watched();
  EXPECT_THAT(Head(example), HasSubstr("CUPTI recorded to the end (CUPTI 130000, /lib/libcupti.so.13)."));
  EXPECT_THAT(Head(example), Not(HasSubstr("UNSEEN")));
  example.analysis.cupti.state = trace::CUPTI_OTHER_SUBSCRIBER;
  EXPECT_THAT(Head(example), HasSubstr("another tool had subscribed to CUPTI before"));
  example.analysis.cupti.version = 0;
  example.analysis.cupti.state = trace::CUPTI_NO_LIBRARY;
  EXPECT_THAT(Head(example), HasSubstr("no libcupti was found"));
}

TEST(CuptiWords, ThePeakOfWhatOnlyItSaw) {
  CuptiInfo cupti = Watched();
  cupti.only_cupti = {Block(4 << 20, 10, 20), Block(6 << 20, 20, 30), Block(1 << 20, 25, UINT64_MAX)};
  cupti.only_cupti.push_back(Block(1 << 30, 5, UINT64_MAX));
  cupti.only_cupti.back().is_static = true;
  const UnseenPeak peak = UnseenPeakOf(cupti);
  EXPECT_EQ(peak.allocations, 3u);
  EXPECT_EQ(peak.bytes, 7u << 20);
  EXPECT_EQ(OnlyCuptiText(cupti),
            "CUPTI alone saw 3 allocations, at most 7 MiB at once on GPU 0: their calls went past the recorder");
}

TEST(CuptiWords, ATraceThatHasOnlyItsViewSaysSoFirst) {
  Example example;
  example.analysis.cupti = Watched();
  example.analysis.cupti.only_cupti = {Block(4 << 20, 10, 20)};
  const Verdict verdict = MakeVerdict(example.input());
  EXPECT_EQ(verdict.kind, VerdictKind::kNothing);
  EXPECT_THAT(verdict.problem,
              HasSubstr("the recorder saw no allocation; CUPTI alone saw 1 allocation, at most 4 MiB"));
}

TEST(CuptiWords, LossesAreAmongTheLosses) {
  Example example = testing::TrainingExample();
  example.analysis.losses.cupti_dropped_records = 12;
  EXPECT_THAT(LossLines(example.input()), ::testing::Contains("12 records of CUPTI that CUPTI dropped"));
}

}  // namespace
}  // namespace gpumem
