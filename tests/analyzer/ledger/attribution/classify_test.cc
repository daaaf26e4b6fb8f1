// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/attribution/classify.h"

#include <gtest/gtest.h>

namespace gpumem {
namespace {

StackClassification At(Stage stage) {
  StackClassification classification;
  classification.stage = stage;
  return classification;
}

BlockLife Life(uint32_t optimizer_steps, bool alive = false) {
  BlockLife life;
  life.optimizer_steps = optimizer_steps;
  life.alive = alive;
  life.has_tensors = true;
  return life;
}

TEST(ClassifyTest, TheAddressWinsOverAutogradAndNames) {
  BlockLife life = Life(0);
  life.saved = true;
  StackClassification named = At(Stage::kForward);
  named.category = Category::kWorkspace;
  EXPECT_EQ(Classify(life, named).category, Category::kActivation);
  EXPECT_EQ(Classify(life, named).evidence, Evidence::kAutograd);
  life.role = TensorRole::kParameter;
  EXPECT_EQ(Classify(life, named).category, Category::kParameter);
  EXPECT_EQ(Classify(life, named).evidence, Evidence::kAddress);
}

TEST(ClassifyTest, WithoutAnOptimizerALifeOverIterationsIsKept) {
  BlockLife life = Life(0);
  life.iterations = 1;
  EXPECT_EQ(Classify(life, At(Stage::kForward)).category, Category::kTemporary) << "a result until the next one";
  life.iterations = 2;
  EXPECT_EQ(Classify(life, At(Stage::kForward)).category, Category::kKept);
  life.role = TensorRole::kParameter;
  EXPECT_EQ(Classify(life, At(Stage::kForward)).category, Category::kParameter);
}

TEST(ClassifyTest, WhatOutlivesTwoStepsIsKept) {
  EXPECT_EQ(Classify(Life(1), At(Stage::kForward)).category, Category::kTemporary) << "a result until the next one";
  EXPECT_EQ(Classify(Life(2), At(Stage::kForward)).category, Category::kKept);
  EXPECT_EQ(Classify(Life(2), At(Stage::kForward)).evidence, Evidence::kRule);
  EXPECT_EQ(Classify(Life(2), At(Stage::kConstruction)).category, Category::kUnknown) << "of a model, perhaps";
  EXPECT_EQ(Classify(Life(2), At(Stage::kConstruction)).evidence, Evidence::kNone);
}

TEST(ClassifyTest, WhatIsAliveAtTheEndIsKeptAsOthersOfItsLineAre) {
  BlockLife life = Life(0, true);
  EXPECT_EQ(Classify(life, At(Stage::kNone)).category, Category::kUnknown);
  life.oldest_steps = 2;
  EXPECT_EQ(Classify(life, At(Stage::kNone)).category, Category::kKept);
  life.oldest_steps = 0;
  life.oldest_iterations = 2;
  EXPECT_EQ(Classify(life, At(Stage::kEvaluation)).category, Category::kKept);
  life.oldest_iterations = 0;
  life.are_many = true;
  EXPECT_EQ(Classify(life, At(Stage::kEvaluation)).category, Category::kKept);
}

TEST(ClassifyTest, WhatABackwardPassMadeIsKeptWhereSeveralStepsAre) {
  BlockLife life = Life(1, true);
  life.oldest_steps = 5;
  EXPECT_EQ(Classify(life, At(Stage::kBackward)).category, Category::kGradient) << "of one step: its parameters'";
  life.are_of_several_steps = true;
  EXPECT_EQ(Classify(life, At(Stage::kBackward)).category, Category::kKept) << "a hook's list";
  StackClassification accumulated = At(Stage::kBackward);
  accumulated.accumulates = true;
  EXPECT_EQ(Classify(life, accumulated).category, Category::kGradient);
}

TEST(ClassifyTest, UnknownHasNoEvidenceWhateverARuleSays) {
  StackClassification named = At(Stage::kForward);
  named.category = Category::kUnknown;
  EXPECT_EQ(Classify(Life(0), named).evidence, Evidence::kNone);
}

TEST(ClassifyTest, GatheredParametersStayCommunication) {
  BlockLife life = Life(0);
  life.saved = true;
  StackClassification gather = At(Stage::kCollective);
  gather.category = Category::kCommunication;
  EXPECT_EQ(Classify(life, gather).category, Category::kCommunication);
}

TEST(ClassifyTest, AShardOfAReducedGradientIsAGradient) {
  BlockLife life = Life(1);
  StackClassification reduce = At(Stage::kBackward);
  reduce.category = Category::kCommunication;
  EXPECT_EQ(Classify(life, reduce).category, Category::kCommunication);
  life.likely = TensorRole::kGradient;
  EXPECT_EQ(Classify(life, reduce).category, Category::kGradient) << "other steps' were told to be";
  life.optimizer_steps = 0;
  EXPECT_EQ(Classify(life, reduce).category, Category::kCommunication) << "a buffer of the same place";
}

TEST(ClassifyTest, AGradientOfAClosureOutlivesTheEndOfItsStep) {
  BlockLife life = Life(0);
  life.likely = TensorRole::kGradient;
  life.optimizer_ends = 1;
  EXPECT_EQ(Classify(life, At(Stage::kBackward)).category, Category::kGradient);
}

TEST(ClassifyTest, GradientsOfSamplesAreGoneBeforeTheStepOfAnAccumulatedBatch) {
  BlockLife life = Life(0);
  life.likely = TensorRole::kGradient;
  EXPECT_EQ(Classify(life, At(Stage::kBackward)).category, Category::kTemporary);
  life.likely_per_sample = true;
  EXPECT_EQ(Classify(life, At(Stage::kBackward)).category, Category::kGradient);
  EXPECT_EQ(Classify(life, At(Stage::kBackward)).evidence, Evidence::kStack);
}

TEST(ClassifyTest, AGradientOutlivesTheBackwardPass) {
  BlockLife life = Life(1);
  life.likely = TensorRole::kGradient;
  EXPECT_EQ(Classify(life, At(Stage::kBackward)).category, Category::kGradient);
  EXPECT_EQ(Classify(life, At(Stage::kBackward)).evidence, Evidence::kStack);
  life.optimizer_steps = 0;
  EXPECT_EQ(Classify(life, At(Stage::kBackward)).category, Category::kTemporary)
      << "from the same place, but gone before the optimizer stepped";
  EXPECT_EQ(Classify(Life(1), At(Stage::kBackward)).evidence, Evidence::kRule) << "no other step's was looked at";
  EXPECT_EQ(Classify(Life(1), At(Stage::kBackward)).category, Category::kGradient);
  EXPECT_EQ(Classify(Life(2), At(Stage::kBackward)).category, Category::kUnknown)
      << "a gradient that stays is looked at at some step";
}

TEST(ClassifyTest, ABatchThatAutogradKeepsIsABatch) {
  BlockLife life = Life(0);
  life.saved = true;
  life.likely = TensorRole::kInput;
  EXPECT_EQ(Classify(life, At(Stage::kNone)).category, Category::kInput);
  StackClassification inside = At(Stage::kForward);
  inside.module = 3;
  EXPECT_EQ(Classify(life, inside).category, Category::kActivation) << "another model's output";
}

TEST(ClassifyTest, WhatAModuleMadeIsNoBatch) {
  BlockLife life = Life(0);
  life.role = TensorRole::kInput;
  EXPECT_EQ(Classify(life, At(Stage::kNone)).category, Category::kInput);
  StackClassification inside = At(Stage::kForward);
  inside.module = 3;
  EXPECT_EQ(Classify(life, inside).category, Category::kTemporary) << "a loss is given logits";
  life.saved = true;
  EXPECT_EQ(Classify(life, inside).category, Category::kActivation);
}

TEST(ClassifyTest, WhatTheProgramBringsForItsModelIsInput) {
  BlockLife life = Life(0);
  StackClassification classification = At(Stage::kNone);
  classification.origin = Origin::kMoved;
  EXPECT_EQ(Classify(life, classification).category, Category::kInput) << "labels that only a metric looks at";
  life.saved = true;
  EXPECT_EQ(Classify(life, classification).category, Category::kInput) << "targets, which autograd keeps for the loss";
  EXPECT_EQ(Classify(life, classification).evidence, Evidence::kRule);
  classification.origin = Origin::kMade;
  EXPECT_EQ(Classify(life, classification).category, Category::kInput) << "random numbers";
  classification.stage = Stage::kLoss;
  EXPECT_EQ(Classify(life, classification).category, Category::kActivation) << "made by the loss";
  classification.stage = Stage::kNone;
  classification.origin = Origin::kComputed;
  EXPECT_EQ(Classify(life, classification).category, Category::kActivation) << "a model without modules";
}

TEST(ClassifyTest, AWorkspaceThatStaysIsOneThoughAutogradKeepsIt) {
  BlockLife life = Life(1);
  life.saved = true;
  StackClassification named = At(Stage::kForward);
  named.category = Category::kWorkspace;
  EXPECT_EQ(Classify(life, named).category, Category::kActivation) << "cuDNN's reserve of one pass";
  life.optimizer_steps = 2;
  EXPECT_EQ(Classify(life, named).category, Category::kWorkspace) << "the state of its dropout";
}

// Module.to makes each parameter anew; nothing else tells what the new one is.
TEST(ClassifyTest, WhatIsMovedWhereParametersWereIsAParameter) {
  BlockLife life = Life(0);
  life.likely = TensorRole::kParameter;
  StackClassification moved = At(Stage::kNone);
  moved.origin = Origin::kMoved;
  EXPECT_EQ(Classify(life, moved).category, Category::kParameter);
  EXPECT_EQ(Classify(life, moved).evidence, Evidence::kStack);
  life.saved = true;
  EXPECT_EQ(Classify(life, moved).category, Category::kParameter) << "autograd keeps weights, too";
  EXPECT_EQ(Classify(Life(0), At(Stage::kForward)).category, Category::kTemporary);
}

TEST(ClassifyTest, WhatStaysForNoKnownReasonIsUnknown) {
  EXPECT_EQ(Classify(Life(1), At(Stage::kForward)).category, Category::kTemporary);
  EXPECT_EQ(Classify(Life(2), At(Stage::kLoad)).category, Category::kUnknown);
  EXPECT_EQ(Classify(Life(2), At(Stage::kLoad)).evidence, Evidence::kNone);
  EXPECT_EQ(Classify(Life(0, true), At(Stage::kForward)).category, Category::kUnknown) << "what stays is kept";
  EXPECT_EQ(Classify(Life(0, true), At(Stage::kNone)).category, Category::kUnknown);
  EXPECT_EQ(Classify(Life(0), At(Stage::kNone)).category, Category::kTemporary);
  EXPECT_EQ(Classify(Life(0, true), At(Stage::kConstruction)).category, Category::kUnknown);
}

TEST(ClassifyTest, WithoutTensorsTheStackMustDo) {
  BlockLife life;
  life.alive = true;
  EXPECT_EQ(Classify(life, At(Stage::kConstruction)).category, Category::kParameter);
  EXPECT_EQ(Classify(life, At(Stage::kOptimizer)).category, Category::kOptimizerState);
  StackClassification adds_up = At(Stage::kBackward);
  adds_up.accumulates = true;
  life.alive = false;
  EXPECT_EQ(Classify(life, adds_up).category, Category::kGradient);
  EXPECT_EQ(Classify(life, adds_up).evidence, Evidence::kRule);
}

}  // namespace
}  // namespace gpumem
