// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

// Sections of the report: each a command by itself, and several at once.

#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/json_writer.h"
#include "small_trace.h"

namespace gpumem {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::Outcome;
using testing::SmallTrace;

class ReportSectionsTest : public testing::CliTest {};

TEST_F(ReportSectionsTest, ASectionOfTheReportIsACommandToo) {
  Put("a.gmtrace", SmallTrace(true));
  Put("cut.gmtrace", SmallTrace(true).substr(0, 300));
  for (const char* section : {"peak", "timeline", "leaks", "oom", "fragmentation", "steps", "stages", "modules",
                              "model", "sizes", "forecast", "info"}) {
    EXPECT_THAT(Run({"--help"}).out, HasSubstr(section));
    for (const char* file : {"a.gmtrace", "cut.gmtrace", "--json", "--help", "none.gmtrace", "--bogus"}) {
      const Outcome alone = Run({section, file}), of_report = Run({"report", section, file});
      EXPECT_EQ(of_report.exit_code, alone.exit_code) << section << " " << file;
      EXPECT_EQ(of_report.out, alone.out) << section << " " << file;
      EXPECT_EQ(of_report.err, alone.err) << section << " " << file;
    }
  }
}

TEST_F(ReportSectionsTest, SeveralSectionsAreOneAfterAnother) {
  Put("a.gmtrace", SmallTrace(true));
  const Outcome all = Run({"report", "peak", "leaks", "peak", "info", "a.gmtrace"});
  EXPECT_EQ(all.exit_code, 0);
  EXPECT_EQ(all.out, absl::StrCat(Run({"peak"}).out, "\n", Run({"leaks"}).out, "\n", Run({"info"}).out));
  const Outcome as_json = Run({"report", "peak", "steps", "--json"});
  const json answer = json::parse(as_json.out);
  EXPECT_EQ(answer["command"], "report");
  EXPECT_EQ(answer["schema_version"], kJsonSchemaVersion);
  EXPECT_EQ(answer["sections"].size(), 2);
  EXPECT_EQ(answer["sections"]["peak"], json::parse(Run({"peak", "--json"}).out));
  EXPECT_EQ(answer["sections"]["steps"], json::parse(Run({"steps", "--json"}).out));
}

TEST_F(ReportSectionsTest, SeveralSectionsShareFlagsComplaintsAndTheHighestExitCode) {
  Put("cut.gmtrace", SmallTrace(true).substr(0, 300));
  EXPECT_EQ(Run({"report", "oom", "peak", "--top", "3"}).exit_code, 4);
  const std::string said = Run({"report", "oom", "peak"}).err;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  const Outcome not_shared = Run({"report", "peak", "leaks", "--check"});
  EXPECT_EQ(not_shared.exit_code, 2);
  EXPECT_THAT(not_shared.err, HasSubstr("unknown flag --check, in gpumemshim peak"));
  EXPECT_THAT(not_shared.out, IsEmpty());
  const std::string help = Run({"report", "peak", "leaks", "--help"}).out;
  EXPECT_THAT(help, HasSubstr("--full-stacks"));
  EXPECT_THAT(help, Not(HasSubstr("--check")));
  const Outcome missing = Run({"report", "peak", "leaks", "--json", "none.gmtrace"});
  EXPECT_EQ(missing.exit_code, 3);
  EXPECT_THAT(missing.out, IsEmpty());
}

TEST_F(ReportSectionsTest, AFileWithASectionsNameIsGivenWithItsFolder) {
  Put("peak", SmallTrace(true));
  EXPECT_EQ(Run({"report", "./peak"}).exit_code, 0);
  EXPECT_EQ(Run({"report", "leaks", "./peak"}).exit_code, 0);
  const Outcome after = Run({"report", "--json", "peak"});
  EXPECT_EQ(after.exit_code, 2);
  EXPECT_THAT(after.err, HasSubstr("sections come before flags"));
}

}  // namespace
}  // namespace gpumem
