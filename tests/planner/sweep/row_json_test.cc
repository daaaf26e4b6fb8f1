// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/sweep/row_json.h"

#include <gmock/gmock.h>

#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "example_rows.h"

namespace gpumem::plan {
namespace {

using ::testing::HasSubstr;

SweepRow ExampleRow() {
  SweepRow row = testing::PrivateRows()[0];
  row.reason = "a \"quoted\" reason\nof two lines";
  row.exit_code = -7;
  row.lost_events = 3;
  row.unknown_reads = 5;
  row.stages[0].growth_bytes = std::numeric_limits<int64_t>::min();
  row.categories["parameter"] = std::numeric_limits<uint64_t>::max();
  row.timeline[1].seconds = 0.1;
  return row;
}

// The message that reading `row` with a change ends with.
std::string ProblemOf(const std::function<void(nlohmann::json*)>& change) {
  nlohmann::json row = nlohmann::json::parse(RowJson(ExampleRow()));
  change(&row);
  return std::string(ParseRow(row.dump()).status().message());
}

TEST(RowJsonTest, ComesBackAsItWas) {
  for (const SweepRow& row : {ExampleRow(), SweepRow(), testing::PrivateRows()[7], testing::GptRows()[19]}) {
    const std::string text = RowJson(row);
    const absl::StatusOr<SweepRow> same = ParseRow(text);
    ASSERT_TRUE(same.ok()) << same.status();
    EXPECT_EQ(RowJson(*same), text);
    EXPECT_EQ(same->values, row.values);
    EXPECT_EQ(same->state, row.state);
    EXPECT_EQ(same->reason, row.reason);
    EXPECT_EQ(same->exit_code, row.exit_code);
    EXPECT_EQ(same->categories, row.categories);
    EXPECT_EQ(same->parts, row.parts);
    EXPECT_EQ(same->tensors, row.tensors);
    EXPECT_EQ(same->seconds, row.seconds);
    EXPECT_EQ(same->components.size(), row.components.size());
    ASSERT_EQ(same->timeline.size(), row.timeline.size());
    for (size_t i = 0; i < row.timeline.size(); ++i) EXPECT_EQ(same->timeline[i].seconds, row.timeline[i].seconds);
    ASSERT_EQ(same->stages.size(), row.stages.size());
    for (size_t i = 0; i < row.stages.size(); ++i) EXPECT_EQ(same->stages[i].growth_bytes, row.stages[i].growth_bytes);
  }
}

TEST(RowJsonTest, SaysWhatIsDamaged) {
  EXPECT_THAT(ProblemOf([](auto* row) { row->erase("peak_reserved_bytes"); }),
              HasSubstr("peak_reserved_bytes is missing"));
  EXPECT_THAT(ProblemOf([](auto* row) { (*row)["peak_allocated_bytes"] = -1; }),
              HasSubstr("peak_allocated_bytes is not a whole number"));
  EXPECT_THAT(ProblemOf([](auto* row) { (*row)["exit_code"] = uint64_t{1} << 40; }),
              HasSubstr("exit_code is not a whole"));
  EXPECT_THAT(ProblemOf([](auto* row) { (*row)["seconds"] = "5"; }), HasSubstr("seconds is not a number"));
  EXPECT_THAT(ProblemOf([](auto* row) { (*row)["seconds"] = -5; }), HasSubstr("seconds is not a time"));
  EXPECT_THAT(ProblemOf([](auto* row) { (*row)["state"] = "fine"; }), HasSubstr("state is none that is known"));
  EXPECT_THAT(ProblemOf([](auto* row) { (*row)["reason"] = nullptr; }), HasSubstr("reason is not text"));
  EXPECT_THAT(ProblemOf([](auto* row) { (*row)["values"][1] = {"only one"}; }), HasSubstr("values[1] is not a pair"));
  EXPECT_THAT(ProblemOf([](auto* row) { (*row)["stages"] = 4; }), HasSubstr("stages is not a list"));
  EXPECT_THAT(ProblemOf([](auto* row) { (*row)["stages"][2].erase("count"); }),
              HasSubstr("stages[2].count is missing"));
  EXPECT_THAT(ProblemOf([](auto* row) { (*row)["stages"][0] = "x"; }), HasSubstr("stages[0].name is missing"));
  EXPECT_THAT(ProblemOf([](auto* row) { (*row)["components"][0]["at_peak"]["activation"] = 0.5; }),
              HasSubstr("components[0].at_peak.activation is not a whole number"));
  EXPECT_THAT(ProblemOf([](auto* row) {
                (*row)["timeline"][3] = {1, 2};
              }),
              HasSubstr("timeline[3] is not a list of 4"));
  EXPECT_THAT(ProblemOf([](auto* row) { (*row)["categories"] = {1}; }), HasSubstr("categories is not an object"));
}

TEST(RowJsonTest, RefusesAnotherVersion) {
  nlohmann::json row = nlohmann::json::parse(RowJson(ExampleRow()));
  row["row_version"] = kRowVersion + 1;
  const absl::Status status = ParseRow(row.dump()).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("of version 2; this gpumemshim reads version 1"));
}

TEST(RowJsonTest, AnyBytesAreAnErrorOrARow) {
  for (const char* text : {"", "{", "null", "[]", "4", "\"row\"", "{}", "\xff\xfe", "{\"row_version\": \"1\"}"})
    EXPECT_TRUE(absl::IsDataLoss(ParseRow(text).status())) << text;
  const std::string deep(1 << 20, '[');
  EXPECT_TRUE(absl::IsDataLoss(ParseRow(deep).status()));
  // Cut anywhere it is an error; with any byte changed it must not crash.
  std::string text = RowJson(ExampleRow());
  for (size_t i = 0; i + 2 < text.size(); i += 97) EXPECT_FALSE(ParseRow(absl::string_view(text).substr(0, i)).ok());
  for (size_t i = 0; i < text.size(); i += 13) {
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ 0x15);
    const auto row = ParseRow(changed);
    EXPECT_TRUE(!row.ok() || ParseRow(RowJson(*row)).ok());
  }
}

}  // namespace
}  // namespace gpumem::plan
