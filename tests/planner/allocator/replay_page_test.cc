// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <gmock/gmock.h>

#include "answers/report/trace_answer.h"
#include "planner/allocator/replay_answer.h"
#include "render/draw.h"
#include "testing/key_tables.h"
#include "testing/sizes.h"

namespace gpumem::plan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::kGiB;
using ::testing::Not;

ReplayedRun RunOf(const std::string& conf, uint64_t reserved) {
  ReplayedRun run;
  run.conf = conf;
  run.memory = 80 * kGiB;
  run.devices[0].peak_reserved = reserved;
  return run;
}

ReplayAnswer Answer() {
  ReplayAnswer answer;
  answer.torch = answer.torch_recorded = "2.11.0";
  answer.capacity = 80 * kGiB;
  answer.recorded = answer.baseline = RunOf("", 12 * kGiB);
  return answer;
}

std::string Text(const ReplayAnswer& answer) {
  TextStyle style;
  style.width = 120;
  Document document;
  AddReplay(answer, &document);
  return ToText(document, style);
}

TEST(ReplayJsonTest, TheTableOfTheManualIsWhatItDeclares) {
  Analysis analysis;
  const ReportInput input{&analysis, nullptr, {}, ""};
  ReplayAnswer answer = Answer();
  answer.difference.emplace();
  answer.recorded.death.emplace();
  gpumem::testing::ExpectKeyTables({{"replay", ReplayDocument(answer, input)}}, {{"", HeadFields("replay", input)}});
}

TEST(ReplaySentenceTest, TheBestOfThem) {
  ReplayAnswer answer = Answer();
  answer.what_ifs = {RunOf("max_split_size_mb:128", 11 * kGiB), RunOf("expandable_segments:True", 8 * kGiB)};
  EXPECT_EQ(ReplaySentence(answer), "expandable_segments:True would have kept 4 GiB less reserved (12 GiB -> 8 GiB)");
}

TEST(ReplaySentenceTest, NoneIsBetter) {
  ReplayAnswer answer = Answer();
  answer.what_ifs = {RunOf("max_split_size_mb:128", 13 * kGiB)};
  EXPECT_THAT(ReplaySentence(answer), HasSubstr("none of these settings would have kept less"));
}

TEST(ReplaySentenceTest, ARequestThatFailedIsServed) {
  ReplayAnswer answer = Answer();
  answer.recorded.failed = 1;
  answer.what_ifs = {RunOf("expandable_segments:True", 8 * kGiB)};
  answer.what_ifs[0].served = 1;
  EXPECT_EQ(ReplaySentence(answer),
            "expandable_segments:True would have served the request that failed, and kept 4 GiB less reserved "
            "(12 GiB -> 8 GiB)");
}

TEST(ReplaySentenceTest, WhatDidNotGetThroughIsNotTheBest) {
  ReplayAnswer answer = Answer();
  answer.what_ifs = {RunOf("a:1", kGiB), RunOf("b:1", kGiB)};
  answer.what_ifs[0].death = ReplayDeath{3, 4096, 0};
  answer.what_ifs[1].error = "ValueError: Unrecognized key";
  EXPECT_EQ(ReplaySentence(answer), "no setting gets to the end of this history");
  EXPECT_THAT(Text(answer), AllOf(HasSubstr("out of memory at request 4, for 4 KiB"), HasSubstr("Unrecognized key")));
}

TEST(ReplayPageTest, DoubtIsInTheHeadline) {
  ReplayAnswer answer = Answer();
  answer.what_ifs = {RunOf("expandable_segments:True", 8 * kGiB)};
  answer.difference = SegmentDifference{0, 4, 2 << 20, 20 << 20};
  answer.baseline = RunOf("", 13 * kGiB);
  const std::string text = Text(answer);
  EXPECT_THAT(text, AllOf(HasSubstr("about 5 GiB less"), HasSubstr("not exact"), HasSubstr("change 5 of its segments"),
                          HasSubstr("(1 GiB)")));
  EXPECT_THAT(Text(Answer()), Not(HasSubstr("not exact")));
}

TEST(ReplayPageTest, EveryDoubtIsSaid) {
  ReplayAnswer answer = Answer();
  answer.doubts = {"events are missing from the trace"};
  EXPECT_FALSE(answer.is_exact());
  EXPECT_THAT(Text(answer), HasSubstr("events are missing from the trace."));
}

TEST(ReplayPageTest, AnotherPyTorchIsNamed) {
  ReplayAnswer answer = Answer();
  answer.torch = "2.6.0";
  EXPECT_THAT(Text(answer), HasSubstr("recorded with 2.11.0"));
}

}  // namespace
}  // namespace gpumem::plan
