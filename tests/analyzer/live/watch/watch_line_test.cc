// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "live/watch/watch_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <limits>

#include "answers/outlook/outlook.h"
#include "base/json_writer.h"
#include "render/draw.h"

namespace gpumem {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

WatchWarning Example() {
  WatchWarning warning;
  warning.process.process.program = "train";
  warning.process.process.pid = 4242;
  warning.process.file = "run.gmtrace";
  warning.outlook.device = 1;
  warning.outlook.risk = RiskLevel::kHigh;
  warning.outlook.last_step = 120;
  warning.outlook.steps = 120;
  warning.outlook.step_ns = 2e9;
  warning.outlook.forecast = {.kind = ForecastKind::kReaches, .earliest = 10, .likely = 15, .latest = 20};
  warning.outlook.sentence = "at this rate\nout of memory";
  return warning;
}

TEST(WatchLine, IsOneLine) {
  for (const std::string& line : {WarningText(Example()), WarningJson(Example()), EndJson({1, 2, 1})})
    EXPECT_EQ(line.find('\n'), line.size() - 1) << line;
  EXPECT_EQ(WarningMark(Example()).find('\n'), std::string::npos);
  EXPECT_THAT(WarningVariables(Example()), Contains("GPUMEMSHIM_SENTENCE=at this rate\\nout of memory"));
  EXPECT_THAT(WarningVariables(Example()), Contains("GPUMEMSHIM_SECONDS_LEFT=30"));
}

TEST(WatchLine, HasTheTimeOfDayWhereThatIsMinutesAway) {
  setenv("TZ", "UTC", 1);
  tzset();
  WatchWarning warning = Example();
  warning.realtime_ns = 14LL * 3600 * 1'000'000'000;
  EXPECT_EQ(WarningText(warning).find("that is"), std::string::npos);
  warning.outlook.forecast.earliest = 300;
  warning.outlook.forecast.latest = 900;
  EXPECT_THAT(WarningText(warning), HasSubstr("; that is 14:10 to 14:30\n"));
  warning.outlook.forecast.latest = 90'000;
  EXPECT_THAT(WarningText(warning), HasSubstr("; that is 1970-01-01 14:10 to 1970-01-03 16:00\n"));
}

TEST(WatchLine, FitsIntoAMark) {
  WatchWarning warning = Example();
  warning.outlook.sentence = std::string(5000, 'x');
  EXPECT_LE(WarningMark(warning).size(), 1000u);
  EXPECT_THAT(WarningMark(warning), ::testing::StartsWith("forecast warning (high, GPU 1, step 120: xxx"));
}

TEST(WatchLine, HasNoNumberWhereThereIsNone) {
  WatchWarning warning = Example();
  warning.outlook.forecast.latest = std::numeric_limits<double>::infinity();
  EXPECT_THAT(WarningJson(warning), HasSubstr("\"latest_steps\": null"));
}

// One function writes both: gpumemshim forecast --json has the same fields of it.
TEST(WatchLine, HasAllOfTheOutlook) {
  WatchWarning warning = Example();
  warning.outlook.forecast.grows_since = 20;
  std::string fields;
  JsonWriter json(&fields);
  json.BeginObject(JsonLayout::kOneLine);
  WriteMembers(OutlookAnswer(warning.outlook), &json);
  json.EndObject();
  EXPECT_THAT(WarningJson(warning), HasSubstr(fields.substr(1, fields.size() - 2)));
  EXPECT_THAT(fields, HasSubstr("\"growing_steps\": 0"));  // nothing grows
  warning.outlook.forecast.per_step = 1;
  EXPECT_THAT(WarningJson(warning), HasSubstr("\"growing_steps\": 100"));
}

TEST(WatchLine, EndsWithTheCounts) {
  EXPECT_EQ(EndText({}), "");
  EXPECT_EQ(EndText({2, 3, 1}), "2 warnings; 3 callbacks, 1 failed\n");
}

}  // namespace
}  // namespace gpumem
