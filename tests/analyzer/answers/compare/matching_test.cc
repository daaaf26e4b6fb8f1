// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/compare/matching.h"

#include <gmock/gmock.h>

#include "answers/compare/diff.h"
#include "facts.h"

namespace gpumem {
namespace {

using ::testing::ElementsAre;
using testing::EmptyRun;
using testing::Hold;
using testing::HoldInLayers;
using ::testing::IsEmpty;

MATCHER_P2(IsMatch, was, now, "") { return arg.was == was && arg.now == now; }

TEST(MatchingTest, MovedLinesMatchInTheirOrder) {
  RunFacts a = EmptyRun(), b = EmptyRun();
  Hold({.place = "t.py:10 f", .through = "aten::linear"}, &a);
  Hold({.place = "t.py:13 f", .through = "aten::gelu"}, &a);
  Hold({.place = "t.py:13 f", .through = "aten::linear"}, &b);  // the old gelu's line
  Hold({.place = "t.py:16 f", .through = "aten::gelu"}, &b);
  EXPECT_THAT(MatchNames(&a, b), ElementsAre(IsMatch("t.py:10 f", "t.py:13 f"), IsMatch("t.py:13 f", "t.py:16 f")));
  EXPECT_EQ(DiffRuns(a, b, false).lines[0].change(), RowChange::kSame);
}

TEST(MatchingTest, ALineThatDoesSomethingElseIsNew) {
  RunFacts a = EmptyRun(), b = EmptyRun();
  Hold({.place = "t.py:10 f", .through = "aten::linear"}, &a);
  Hold({.place = "t.py:10 f", .through = "aten::linear"}, &b);
  Hold({.place = "t.py:11 f", .through = "aten::zeros"}, &b);
  EXPECT_THAT(MatchNames(&a, b), IsEmpty());
  const Diff diff = DiffRuns(a, b, false);
  EXPECT_EQ(diff.lines[0].name, "t.py:11 f");
  EXPECT_EQ(diff.lines[0].change(), RowChange::kNew);
}

TEST(MatchingTest, RenamedFilesFunctionsAndModulesAreShown) {
  RunFacts a = EmptyRun(), b = EmptyRun();
  HoldInLayers({.place = "old.py:5 Block.forward"}, "feed_forward", 3, &a);
  HoldInLayers({.place = "new.py:5 Block.forward"}, "mlp", 3, &b);
  Hold({.place = "old.py:9 loss", .through = "aten::nll"}, &a);
  Hold({.place = "new.py:9 loss_of", .through = "aten::nll"}, &b);
  EXPECT_THAT(MatchNames(&a, b), ElementsAre(IsMatch("new.py loss", "new.py loss_of"), IsMatch("old.py", "new.py"),
                                             IsMatch("layers.*.feed_forward", "layers.*.mlp")));
  EXPECT_EQ(a.groups[1].module, "layers.1.mlp");
}

TEST(MatchingTest, TwoCandidatesAreNoEvidence) {
  RunFacts a = EmptyRun(), b = EmptyRun();
  HoldInLayers({}, "mlp", 2, &a);
  HoldInLayers({}, "left", 2, &b);
  HoldInLayers({}, "right", 2, &b);
  EXPECT_THAT(MatchNames(&a, b), IsEmpty());
}

}  // namespace
}  // namespace gpumem
