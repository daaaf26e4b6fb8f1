// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/predict/vary.h"

#include <gmock/gmock.h>

#include <numeric>

#include "absl/status/status.h"

namespace gpumem::plan {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

Axis AxisOf(const char* text) {
  absl::StatusOr<Axis> axis = ParseAxis(text);
  EXPECT_TRUE(axis.ok()) << axis.status();
  return axis.ok() ? *std::move(axis) : Axis{};
}

using Words = std::vector<std::string>;

// The command with the axis at `value`; the message where there is no place for it.
Words Put(const char* axis, int64_t value, Words command) {
  const absl::StatusOr<VariedCommand> varied = Substitute(AxisOf(axis), value, {std::move(command), {}});
  return varied.ok() ? varied->command : Words{std::string(varied.status().message())};
}

TEST(ParseAxisTest, ReadsARange) {
  const Axis axis = AxisOf("batch_size=3..6");
  EXPECT_EQ(axis.kind, Axis::Kind::kArgument);
  EXPECT_EQ(axis.name, "batch_size");
  EXPECT_TRUE(axis.is_range);
  EXPECT_THAT(axis.values, ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(AxisOf("n=7..7").values, ElementsAre(7));
}

TEST(ParseAxisTest, ReadsAListInAnyOrder) {
  const Axis axis = AxisOf("seq_len=2048,512,1024,512");
  EXPECT_FALSE(axis.is_range);
  EXPECT_THAT(axis.values, ElementsAre(512, 1024, 2048));
  EXPECT_THAT(AxisOf("n=5").values, ElementsAre(5));
  EXPECT_THAT(AxisOf("n=-1,0").values, ElementsAre(-1, 0));
}

TEST(ParseAxisTest, ReadsNamesAsPeopleWriteThem) {
  EXPECT_EQ(AxisOf("--batch-size=1..2").name, "batch-size");
  EXPECT_EQ(AxisOf("-b=1..2").name, "b");
  EXPECT_EQ(AxisOf("data.batch=1..2").name, "data.batch");
  const Axis variable = AxisOf("env:BATCH=1,2");
  EXPECT_EQ(variable.kind, Axis::Kind::kEnvironment);
  EXPECT_EQ(variable.name, "BATCH");
}

TEST(ParseAxisTest, SaysWhatIsWrong) {
  const std::pair<const char*, const char*> wrong[] = {{"", "no NAME=VALUES"},
                                                       {"batch", "no NAME=VALUES"},
                                                       {"=1..2", "no NAME=VALUES"},
                                                       {"--=1..2", "the name is none"},
                                                       {"env:=1..2", "the name is none"},
                                                       {"a b=1..2", "the name is none"},
                                                       {"n=2..1", "the smaller first"},
                                                       {"n=1..", "two whole numbers"},
                                                       {"n=..4", "two whole numbers"},
                                                       {"n=1.5..4", "two whole numbers"},
                                                       {"n=", "not a whole number"},
                                                       {"n=1,,2", "not a whole number"},
                                                       {"n=1..2..3", "not a whole number"},
                                                       {"n=many", "\"many\" is not a whole number"},
                                                       {"n=1..2000000", "too many tries"},
                                                       {"n=99999999999999999999", "not a whole number"}};
  for (const auto& [text, why] : wrong) {
    const absl::Status status = ParseAxis(text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(why), HasSubstr("--vary 'batch_size=1..64'"))) << text;
  }
}

// Doubling, and the distance between two of them, must stay numbers.
TEST(ParseAxisTest, RefusesNumbersThatNothingIsCountedBy) {
  for (const char* text : {"n=-9223372036854775807..9223372036854775807", "n=9223372036854775806..9223372036854775807",
                           "n=1,9223372036854775807", "n=-9223372036854775808"})
    EXPECT_TRUE(absl::IsInvalidArgument(ParseAxis(text).status())) << text;
}

TEST(SomeValuesTest, DoublesThroughARangeAndKeepsAList) {
  EXPECT_THAT(SomeValues(AxisOf("n=1..10")), ElementsAre(1, 2, 4, 8, 10));
  EXPECT_THAT(SomeValues(AxisOf("n=3..3")), ElementsAre(3));
  EXPECT_THAT(SomeValues(AxisOf("n=0..5")), ElementsAre(0, 1, 2, 4, 5));
  EXPECT_THAT(SomeValues(AxisOf("n=-2..1")), ElementsAre(-2, -1, 0, 1));
  EXPECT_THAT(SomeValues(AxisOf("n=5,1,3")), ElementsAre(1, 3, 5));
}

TEST(SubstituteTest, APlaceholderComesFirst) {
  EXPECT_THAT(Put("b=1..9", 8, {"python", "t.py", "--b", "1", "x{b}y{b}", "model.b={b}"}),
              ElementsAre("python", "t.py", "--b", "1", "x8y8", "model.b=8"));
}

TEST(SubstituteTest, AFlagWithDashesOrUnderscores) {
  EXPECT_THAT(Put("batch_size=1..9", 8, {"python", "--batch-size", "1"}), ElementsAre("python", "--batch-size", "8"));
  EXPECT_THAT(Put("batch-size=1..9", 8, {"python", "--batch_size=1"}), ElementsAre("python", "--batch_size=8"));
  EXPECT_THAT(Put("b=1..9", 8, {"python", "-b", "1"}), ElementsAre("python", "-b", "8"));
  EXPECT_THAT(Put("batch=1..9", 8, {"python", "--batch-size", "1", "--batch=2"}),
              ElementsAre("python", "--batch-size", "1", "--batch=8"));
}

TEST(SubstituteTest, AnAssignment) {
  EXPECT_THAT(Put("data.batch=1..9", 8, {"python", "t.py", "data.batch=1", "batch=3"}),
              ElementsAre("python", "t.py", "data.batch=8", "batch=3"));
}

TEST(SubstituteTest, AnEnvironmentVariableNeedsNoPlace) {
  const absl::StatusOr<VariedCommand> varied = Substitute(AxisOf("env:B=1..9"), 8, {{"python", "--B", "1"}, {}});
  ASSERT_TRUE(varied.ok());
  EXPECT_THAT(varied->command, ElementsAre("python", "--B", "1"));
  EXPECT_THAT(varied->environment, ElementsAre(Pair("B", "8")));
}

TEST(SubstituteTest, SaysWhereThereIsNoPlace) {
  for (const Words& command :
       {Words{"python", "t.py"}, Words{"--batch=1"}, Words{"python", "--batch"}, Words{"python", "batch"}}) {
    const Words answer = Put("batch=1..9", 8, command);
    ASSERT_EQ(answer.size(), 1u);
    EXPECT_THAT(answer[0], AllOf(HasSubstr("no place for batch"), HasSubstr("{batch}"), HasSubstr("--batch"),
                                 HasSubstr("env:batch=")));
  }
}

TEST(BatchFlagTest, IsFoundByItsUsualNames) {
  const std::optional<BatchFlag> plain = FindBatchFlag({"python", "t.py", "--batch-size", "32"});
  ASSERT_TRUE(plain.has_value());
  EXPECT_EQ(plain->name, "--batch-size");
  EXPECT_EQ(plain->value, 32);
  EXPECT_THAT(WithBatch({"python", "t.py", "--batch-size", "32"}, *plain, 16),
              ElementsAre("python", "t.py", "--batch-size", "16"));
  const Words trainer = {"python", "--batch_size", "9", "--per_device_train_batch_size=4"};
  const std::optional<BatchFlag> joined = FindBatchFlag(trainer);
  ASSERT_TRUE(joined.has_value());
  EXPECT_EQ(joined->name, "--per_device_train_batch_size");
  EXPECT_THAT(WithBatch(trainer, *joined, 2),
              ElementsAre("python", "--batch_size", "9", "--per_device_train_batch_size=2"));
}

TEST(BatchFlagTest, OneThatCannotBeHalvedIsNone) {
  for (const Words& command : {Words{}, Words{"python"}, Words{"python", "--bs"}, Words{"python", "--bs", "1"},
                               Words{"python", "--bs", "auto"}, Words{"python", "batch_size", "8"},
                               Words{"--batch", "8"}, Words{"python", "--bs="}})
    EXPECT_FALSE(FindBatchFlag(command).has_value());
}

}  // namespace
}  // namespace gpumem::plan
