// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

// What the first sentence of a comparison says, on facts made by hand. tests/e2e/diff_test.py asks the same of
// programs.

#include "answers/compare/diff.h"

#include <gmock/gmock.h>

#include "answers/compare/cause.h"
#include "answers/compare/diff_answer.h"
#include "facts.h"
#include "render/draw.h"

namespace gpumem {
namespace {

using testing::AddParameter;
using ::testing::AllOf;
using testing::EmptyRun;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::Hold;
using testing::HoldInLayers;
using testing::kMiB;
using ::testing::StartsWith;

class DiffTest : public ::testing::Test {
 protected:
  Diff Run() const { return DiffRuns(a_, b_, false); }
  RunFacts a_ = EmptyRun(), b_ = EmptyRun();
};

TEST_F(DiffTest, NamesTheGroupOfModulesWithCountsAndSizes) {
  HoldInLayers({.size = 96 * kMiB}, "mlp", 32, &a_);
  HoldInLayers({.size = 192 * kMiB}, "mlp", 32, &b_);
  HoldInLayers({.place = "t.py:3 f", .size = 8 * kMiB}, "attn", 32, &a_);
  HoldInLayers({.place = "t.py:3 f", .size = 8 * kMiB}, "attn", 32, &b_);
  const Diff diff = Run();
  EXPECT_EQ(diff.headline,
            "+3 GiB at the peak: activations of layers.*.mlp, 32 x 96 MiB -> 32 x 192 MiB (train.py:10 Block.forward)");
  EXPECT_EQ(diff.delta, static_cast<int64_t>(3072 * kMiB));
  EXPECT_EQ(diff.cause.explained, diff.delta);
}

TEST_F(DiffTest, WorksInBothDirections) {
  HoldInLayers({.size = 4 * kMiB}, "mlp", 2, &a_);
  HoldInLayers({.size = 1 * kMiB}, "mlp", 2, &b_);
  EXPECT_THAT(Run().headline, StartsWith("-6 MiB at the peak: activations of layers.*.mlp, 2 x 4 MiB -> 2 x 1 MiB"));
}

TEST_F(DiffTest, EqualRunsAreSaidToBeEqual) {
  HoldInLayers({}, "mlp", 2, &a_);
  HoldInLayers({}, "mlp", 2, &b_);
  const Diff diff = Run();
  EXPECT_EQ(diff.headline, "no difference at the peak: 2 MiB allocated and 2 MiB reserved in both");
  EXPECT_EQ(diff.cause.kind, CauseKind::kNone);
}

// Each peak at its own moment: what is reserved when most is allocated may be the same.
TEST_F(DiffTest, ReservedIsComparedAtItsOwnPeak) {
  HoldInLayers({}, "mlp", 2, &a_);
  HoldInLayers({}, "mlp", 2, &b_);
  b_.peak_reserved += 1500 * kMiB;
  b_.peak_total += 1500 * kMiB;
  b_.stranded = "1.4 GiB free on 23 CUDA streams that were each used for a while";
  const Diff diff = Run();
  EXPECT_EQ(diff.subject, "reserved");
  EXPECT_EQ(diff.cause.kind, CauseKind::kAllocator);
  EXPECT_EQ(diff.headline,
            "+1.46 GiB reserved at the peak: PyTorch keeps 0 B -> 1.46 GiB beyond the peak of what tensors use; in B "
            "1.4 GiB free on 23 CUDA streams that were each used for a while");
}

TEST_F(DiffTest, MemoryOutsideOfPyTorchIsComparedAtItsOwnPeak) {
  HoldInLayers({}, "mlp", 2, &a_);
  HoldInLayers({}, "mlp", 2, &b_);
  b_.peak_other += 30 * kMiB;
  b_.peak_total += 30 * kMiB;
  EXPECT_THAT(Run().headline, StartsWith("+30 MiB outside PyTorch at the peak: "));
}

TEST_F(DiffTest, WhatDiffersBesidesTheSubjectIsNamed) {
  HoldInLayers({.size = 100 * kMiB}, "mlp", 1, &a_);
  HoldInLayers({.size = 200 * kMiB}, "mlp", 1, &b_);
  b_.peak_reserved += 60 * kMiB;
  EXPECT_THAT(Run().headline, AllOf(StartsWith("+100 MiB at the peak: "), EndsWith("; reserved +160 MiB")));
}

TEST_F(DiffTest, SeveralCausesAreNamedAsSuch) {
  Hold({.category = Category::kParameter, .place = "train.py:1 build", .size = 40 * kMiB}, &b_);
  Hold({.category = Category::kGradient, .place = "train.py:2 step", .size = 35 * kMiB}, &b_);
  Hold({.category = Category::kInput, .place = "train.py:3 load", .size = 25 * kMiB}, &b_);
  const Diff diff = Run();
  EXPECT_EQ(diff.cause.kind, CauseKind::kSeveral);
  EXPECT_EQ(diff.headline,
            "+100 MiB at the peak: several causes, most by parameters (+40 MiB) and gradients (+35 MiB)");
}

TEST_F(DiffTest, NothingThatExplainsHalfIsNotKnown) {
  int line = 0;
  for (const Category category :
       {Category::kParameter, Category::kGradient, Category::kInput, Category::kActivation, Category::kWorkspace})
    Hold({.category = category, .place = "train.py:" + std::to_string(++line) + " f", .size = 20 * kMiB}, &b_);
  const Diff diff = Run();
  EXPECT_EQ(diff.cause.kind, CauseKind::kUnknown);
  EXPECT_THAT(diff.headline, HasSubstr("cause not known"));
}

TEST_F(DiffTest, ALineIsOneCauseWhateverItsMemoryIs) {
  Hold({.category = Category::kActivation, .place = "train.py:5 keep", .count = 4, .size = 3 * kMiB}, &b_);
  Hold({.category = Category::kUnknown, .place = "train.py:5 keep", .count = 8, .size = 3 * kMiB}, &b_);
  EXPECT_EQ(Run().headline, "+36 MiB at the peak: memory at train.py:5 keep, none -> 12 x 3 MiB");
}

TEST_F(DiffTest, OtherShapesAreNamedBesideTheGroup) {
  for (RunFacts* facts : {&a_, &b_}) {
    const uint64_t width = facts == &a_ ? 4 : 8;
    facts->parameters["layers.0.up.weight"] = {{4 * width, width}, "float32", true};
    facts->parameters["layers.0.norm.weight"] = {{width}, "float32", true};
  }
  HoldInLayers({.size = 4 * kMiB}, "mlp", 2, &a_);
  HoldInLayers({.size = 8 * kMiB}, "mlp", 2, &b_);
  EXPECT_THAT(Run().headline,
              HasSubstr("; 2 parameters have other shapes: layers.*.up.weight is [32, 8] instead of [16, 4]"));
}

TEST_F(DiffTest, CheckpointingIsKnownEvenWhereThePeakHasNoneOfIt) {
  a_.recomputes = true;
  Hold({.category = Category::kGradient, .size = 10 * kMiB}, &a_);
  HoldInLayers({.size = 8 * kMiB}, "mlp", 2, &b_);
  EXPECT_THAT(Run().headline, HasSubstr("activations are kept instead of recomputed"));
}

TEST_F(DiffTest, LayersThatWereAddedAreCounted) {
  for (const auto& [facts, layers] : {std::pair{&a_, uint64_t{2}}, std::pair{&b_, uint64_t{3}}}) {
    HoldInLayers({.category = Category::kParameter, .size = 4 * kMiB}, "mlp", layers, facts);
    HoldInLayers({.size = 8 * kMiB}, "mlp", layers, facts);
    for (uint64_t i = 0; i < layers; ++i)
      AddParameter("layers." + std::to_string(i) + ".mlp.weight", "float32", true, facts);
  }
  EXPECT_EQ(Run().headline,
            "+12 MiB at the peak: 1 layer more in layers, 2 -> 3: parameters 8 MiB -> 12 MiB, activations 16 MiB -> 24 "
            "MiB");
}

TEST_F(DiffTest, AnotherTypeOfParametersIsNamed) {
  AddParameter("w", "float32", true, &a_);
  AddParameter("w", "bfloat16", true, &b_);
  Hold({.category = Category::kParameter, .size = 8 * kMiB}, &a_);
  Hold({.category = Category::kParameter, .size = 4 * kMiB}, &b_);
  Hold({.category = Category::kGradient, .size = 8 * kMiB}, &a_);
  Hold({.category = Category::kGradient, .size = 4 * kMiB}, &b_);
  EXPECT_EQ(Run().headline,
            "-8 MiB at the peak: parameters are bfloat16 instead of float32: parameters 8 MiB -> 4 MiB, gradients 8 "
            "MiB -> 4 MiB");
}

TEST_F(DiffTest, AChangeThatDoesNotExplainHalfIsNotTheCause) {
  AddParameter("w", "float32", true, &a_);
  AddParameter("w", "bfloat16", true, &b_);
  Hold({.category = Category::kParameter, .size = 8 * kMiB}, &a_);
  Hold({.category = Category::kParameter, .size = 4 * kMiB}, &b_);
  Hold({.place = "t.py:1 main", .count = 10, .size = 100 * kMiB}, &a_);
  EXPECT_THAT(Run().headline, StartsWith("-1004 MiB at the peak: activations at t.py:1 main, 10 x 100 MiB -> none"));
}

TEST_F(DiffTest, WhatWasReservedOnlyIsFragmentation) {
  Hold({.size = 100 * kMiB}, &a_);
  Hold({.size = 100 * kMiB}, &b_);
  b_.values.reserved += 50 * kMiB;
  b_.values.total += 50 * kMiB;
  a_.moment = b_.moment = "step 3";
  const Diff diff = Run();
  EXPECT_EQ(diff.cause.kind, CauseKind::kAllocator);
  EXPECT_EQ(diff.headline,
            "+50 MiB reserved from step 3 to step 3: PyTorch keeps 0 B -> 50 MiB in segments that no tensor uses");
}

TEST_F(DiffTest, MemoryOutsideOfPyTorchIsNamed) {
  Hold({.size = 100 * kMiB}, &a_);
  Hold({.size = 100 * kMiB}, &b_);
  b_.context = 600 * kMiB;
  const Diff diff = Run();
  EXPECT_EQ(diff.cause.kind, CauseKind::kOutside);
  EXPECT_EQ(diff.headline,
            "+600 MiB outside PyTorch at the peak: the CUDA context, its modules and kernels' local memory, 0 B -> "
            "600 MiB");
}

TEST_F(DiffTest, TheLineOfOtherCudaMemoryIsNamed) {
  Hold({.size = 100 * kMiB}, &a_);
  Hold({.size = 100 * kMiB}, &b_);
  b_.peak_other = 480 * kMiB;
  b_.beside = {{"train.py:7 grab", 400 * kMiB}, {"train.py:9 main", 80 * kMiB}};
  EXPECT_EQ(Run().headline, "+480 MiB outside PyTorch at the peak: train.py:7 grab, 0 B -> 400 MiB");
}

TEST_F(DiffTest, PinnedAndManagedMemoryAreCompared) {
  Hold({.size = 100 * kMiB}, &a_);
  Hold({.size = 100 * kMiB}, &b_);
  a_.peak_pinned = b_.peak_managed = 64 * kMiB;
  const Diff diff = Run();
  EXPECT_EQ(diff.subject, "host");
  EXPECT_EQ(diff.headline,
            "-64 MiB of no device at the peak: pinned memory of the host, 64 MiB -> 0 B; managed memory, 0 B -> 64 "
            "MiB");
}

TEST_F(DiffTest, DoubtsComeFirst) {
  HoldInLayers({.size = 4 * kMiB}, "mlp", 2, &b_);
  b_.ending = RunEnding::kOutOfMemory;
  b_.refused_bytes = 20 * kMiB;
  b_.lost_events = 3;
  EXPECT_THAT(Run().headline,
              StartsWith("B ran out of memory (20 MiB refused), A completed; B lost 3 events: +8 MiB at the peak: "));
  b_.lost_events = 0;
  b_.ending = RunEnding::kCompleted;
  a_.is_damaged = true;
  EXPECT_THAT(Run().headline, StartsWith("A is damaged: +8 MiB"));
}

TEST_F(DiffTest, ATraceWithoutMemoryIsNotKnown) {
  HoldInLayers({}, "mlp", 2, &b_);
  a_.has_moment = false;
  EXPECT_THAT(Run().headline, HasSubstr("not known: no GPU memory was recorded in one of the two"));
}

TEST_F(DiffTest, RowsSumToTheDifference) {
  HoldInLayers({.size = 4 * kMiB}, "mlp", 2, &a_);
  Hold({.category = Category::kInput, .place = "t.py:3 f", .size = kMiB}, &a_);
  HoldInLayers({.size = 7 * kMiB}, "mlp", 3, &b_);
  const Diff diff = Run();
  for (const auto* rows : {&diff.categories, &diff.modules, &diff.lines, &diff.stacks}) {
    int64_t sum = 0;
    for (const DiffRow& row : *rows) sum += row.delta();
    EXPECT_EQ(sum, diff.delta);
  }
  EXPECT_THAT(ToJson(DiffAnswer(diff, 0, false)), HasSubstr("\"delta_bytes\": 12582912"));
}

class AgainstPlanTest : public DiffTest {
 protected:
  AgainstPlanTest() {
    for (RunFacts* facts : {&a_, &b_}) {
      Hold({.size = 100 * kMiB}, facts);
      facts->context = 500 * kMiB;
      facts->code = 100 * kMiB;
    }
    a_.is_simulated = a_.is_planned = true;
  }
};

TEST_F(AgainstPlanTest, ARunAsItsPlanSays) {
  EXPECT_EQ(Run().headline, "the run needed what its plan says, 600 MiB");
  a_.ending = RunEnding::kKilled;
  EXPECT_EQ(Run().headline, "the run needed what its plan says, 600 MiB") << "a plan ends its program";
}

TEST_F(AgainstPlanTest, NamesTheLargestPartFirst) {
  b_.context += 80 * kMiB;
  b_.code += 10 * kMiB;
  Hold({.category = Category::kWorkspace, .size = 300 * kMiB}, &b_);
  const Diff diff = Run();
  EXPECT_EQ(diff.headline,
            "the run needed 380 MiB more than its plan says: workspaces +300 MiB; CUDA context +70 MiB; loaded code "
            "+10 MiB");
  EXPECT_THAT(ToJson(DiffAnswer(diff, 0, false)), HasSubstr("\"plan_bytes\": 0, \"run_bytes\": 314572800"));
}

TEST_F(AgainstPlanTest, WhicheverIsNamedFirst) {
  b_.code += 10 * kMiB;
  b_.context += 10 * kMiB;
  std::swap(a_, b_);
  EXPECT_EQ(Run().headline, "the run needed 10 MiB more than its plan says: loaded code +10 MiB");
}

TEST_F(AgainstPlanTest, BatchAndDataWhereInputsDiffer) {
  a_.inputs = {{8, 1024}};
  b_.inputs = {{4, 1024}};
  b_.peak_allocated -= 50 * kMiB;
  b_.peak_reserved -= 50 * kMiB;
  EXPECT_EQ(Run().headline,
            "the run needed 50 MiB less than its plan says: batch and data -50 MiB (inputs are [4, 1024] instead of "
            "[8, 1024])");
}

TEST_F(AgainstPlanTest, TheAllocatorsSettings) {
  a_.environment["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True";
  b_.peak_reserved += 40 * kMiB;
  EXPECT_EQ(Run().headline,
            "the run needed 40 MiB more than its plan says: allocator settings +40 MiB (they are none instead of "
            "expandable_segments:True)");
}

TEST_F(AgainstPlanTest, OtherProcessesAreNotTheProgramsNeed) {
  b_.others = 2048 * kMiB;
  EXPECT_EQ(Run().headline, "the run needed what its plan says, 600 MiB: other processes on the GPU +2 GiB");
}

TEST_F(AgainstPlanTest, AContextThatNobodyMeasuredIsLeftOut) {
  b_.context = b_.code = 0;
  EXPECT_EQ(Run().headline,
            "the run needed what its plan says, 100 MiB; not known in both and left out: CUDA context and loaded code");
  a_.beyond = 600 * kMiB;
  b_.beyond = 650 * kMiB;
  EXPECT_EQ(Run().headline, "the run needed 50 MiB more than its plan says: CUDA context and loaded code +50 MiB");
}

TEST_F(AgainstPlanTest, TwoPlansAreComparedAsRunsAre) {
  b_.is_simulated = b_.is_planned = true;
  b_.context += 80 * kMiB;
  EXPECT_THAT(Run().headline, StartsWith("+80 MiB outside PyTorch at the peak"));
}

TEST(UsesTextTest, TellsSizesOnlyWhereTheyAreEqual) {
  TwoUses uses{30, 3, 60, 3, 10, 10, 10, 30};
  EXPECT_EQ(UsesText(uses), "3 x 10 B -> 60 B in 3 blocks");
  EXPECT_EQ(UsesText({0, 0, 5, 1, 0, 0, 5, 5}), "none -> 5 B");
}

}  // namespace
}  // namespace gpumem
