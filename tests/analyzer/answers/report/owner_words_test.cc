// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/report/owner_words.h"

#include <gtest/gtest.h>

#include "answers/report/leak_words.h"

namespace gpumem {
namespace {

LeakRow RowKeptBy(const std::vector<std::string>& paths, uint64_t grown_blocks) {
  LeakRow row;
  row.status = LeakStatus::kGrowing;
  row.grown_bytes = grown_blocks * 512;
  row.grown_blocks = grown_blocks;
  row.owners.cause = OwnersCause::kRunEnd;
  for (const std::string& path : paths) {
    SeenOwner owner;
    owner.root = OwnerRoot::kGlobal;
    owner.file = "/job/train.py";
    owner.path = path;
    owner.bytes = 512;
    owner.blocks = 1;
    row.owners.owners.push_back(std::move(owner));
  }
  return row;
}

TEST(MainOwner, HasHalfOfWhatGrew) {
  EXPECT_EQ(MainOwner(RowKeptBy({"a", "b"}, 2))->path, "a");
  EXPECT_FALSE(MainOwner(RowKeptBy({"a", "b"}, 4)).has_value());
}

TEST(MainOwner, IsOneWhereOnlyNumbersDiffer) {
  EXPECT_EQ(MainOwner(RowKeptBy({"cache[0]", "cache[1]", "cache[2]"}, 4))->path, "cache[*]");
}

TEST(MainOwner, IsTheContainerWhereItsElementsKeepInSeveralWays) {
  EXPECT_EQ(MainOwner(RowKeptBy({"models[*].input", "models[*].output", "other"}, 4))->path, "models[*]");
  EXPECT_FALSE(MainOwner(RowKeptBy({"trainer.a", "trainer.b", "trainer.c"}, 4)).has_value())
      << "an object has many uses";
}

TEST(KeptByText, NamesNobodyWhoWasNotSeen) {
  EXPECT_EQ(KeptByText(RowKeptBy({"models[*].input", "models[*].output"}, 4)),
            "kept by models[*], a global of train.py");
  EXPECT_NE(KeptByText(RowKeptBy({"a"}, 4)).find("not seen"), std::string::npos);
}

TEST(IsKeptByGraph, WhereAWayThroughOneWasSeen) {
  EXPECT_TRUE(IsKeptByGraph(RowKeptBy({"losses[*].grad_fn"}, 2)));
  EXPECT_FALSE(IsKeptByGraph(RowKeptBy({"batches[*].obs"}, 2)));
  EXPECT_FALSE(IsKeptByGraph(RowKeptBy({"losses[*].grad_fn"}, 4))) << "of less than half";
}

TEST(RowToSay, IsTheFirstLargeOneWithAName) {
  std::vector<LeakRow> rows{RowKeptBy({}, 4), RowKeptBy({"history[*]"}, 2)};
  EXPECT_EQ(&RowToSay(rows), &rows[1]);
  rows[1] = RowKeptBy({"history[*]"}, 1);
  EXPECT_EQ(&RowToSay(rows), &rows[0]) << "less than half as much";
}

SeenOwners OwnersAt(const std::vector<std::string>& paths, const std::string& name = "__main__") {
  SeenOwners owners = RowKeptBy(paths, 1).owners;
  for (SeenOwner& owner : owners.owners) owner.name = name;
  return owners;
}

TEST(KeptErrorsOf, AddsUpWhatTheirTracebacksKeep) {
  const auto errors =
      KeptErrorsOf(OwnersAt({"errors[0].__traceback__ -> fit: x", "history[*]",
                             "errors[1].__traceback__ -> fit: y.grad_fn", "other.__traceback__ -> f: x"}));
  ASSERT_TRUE(errors.has_value());
  EXPECT_EQ(errors->path, "errors[*].__traceback__");
  EXPECT_EQ(errors->bytes, 1024u);
  EXPECT_FALSE(IsOfHandledError(*errors));
}

TEST(KeptErrorsOf, WhatAVariablesObjectHasMayHaveOtherOwners) {
  EXPECT_FALSE(KeptErrorsOf(OwnersAt({"error.__traceback__ -> fit: layer.weight"})).has_value());
}

TEST(KeptErrorsOf, TheErrorThatIsHandledKeepsAndTheLastOneNoMore) {
  EXPECT_FALSE(KeptErrorsOf(OwnersAt({"last_traceback -> fit: x"}, "sys")).has_value());
  EXPECT_FALSE(KeptErrorsOf(OwnersAt({"last_value.__traceback__ -> fit: x"}, "sys")).has_value());
  EXPECT_TRUE(IsOfHandledError(*KeptErrorsOf(OwnersAt({"last_handled.__traceback__ -> fit: x"}, "sys"))));
  EXPECT_TRUE(IsOfHandledError(*KeptErrorsOf(OwnersAt({"last_value.__context__.__traceback__ -> fit: x"}, "sys"))));
}

TEST(OwnerText, OfAnErrorIsTheVariableOfTheFunction) {
  const SeenOwner of_last = OwnersAt({"last_value.__traceback__ -> fit: outputs[*]"}, "sys").owners[0];
  EXPECT_EQ(OwnerText(of_last), "outputs[*], a variable of fit when the error ended the program");
}

}  // namespace
}  // namespace gpumem
