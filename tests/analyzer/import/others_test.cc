// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// torch.profiler's traces, from a file to the answer.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "import/importing.h"

namespace gpumem {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

std::string Memory(uint64_t address, int64_t bytes, double time, uint64_t total, int type = 1) {
  return absl::StrCat(R"({"ph":"i","name":"[memory]","ts":)", time, R"(,"tid":5,"args":{"Addr":)", address,
                      R"(,"Bytes":)", bytes, R"(,"Device Id":0,"Device Type":)", type, R"(,"Total Allocated":)", total,
                      R"(,"Total Reserved":2097152}})");
}

std::string Profile(const std::string& events) {
  return absl::StrCat(R"({"schemaVersion":1,"baseTimeNanoseconds":1700000000000000000,"deviceProperties":[{"id":0}],)",
                      R"("traceEvents":[{"ph":"X","cat":"cpu_op","name":"aten::add","args":{"Bytes":[[1]]}},)", events,
                      "]}");
}

TEST(ProfilerTraceTest, PeakIsTheTotal) {
  // 1,000 bytes from before, of which 300 are freed; the file's order is not that of time.
  const std::string events = absl::StrCat(Memory(9000, -300, 3, 1200), ",", Memory(5000, 500, 2, 1500), ",",
                                          Memory(7000, 64, 2.5, 64, /*type=*/0), ",", Memory(5000, -500, 4, 700));
  for (const std::string& bytes : {Profile(events), Gzip(Profile(events))}) {
    ImportResult result;
    const auto analysis = Import(bytes, &result);
    ASSERT_TRUE(analysis.ok()) << analysis.status();
    EXPECT_EQ(analysis->devices[0].peak_allocated.bytes, 1500u);
    EXPECT_EQ(analysis->devices[0].end.allocated, 700u);
    EXPECT_EQ(result.format, "torch.profiler trace");
    EXPECT_THAT(result.notes, Contains(HasSubstr("1000 B were allocated before the profile")));
    EXPECT_THAT(result.notes, Contains(HasSubstr("1 event of memory that is on no GPU was left out")));
  }
}

TEST(ProfilerTraceTest, RefusesWhatIsNone) {
  EXPECT_THAT(std::string(Import("{\"a\": 1}").status().message()), HasSubstr("no memory event"));
  const std::string whole = Profile(Memory(5000, 500, 2, 500));
  EXPECT_TRUE(Import(whole).ok());
  EXPECT_THAT(std::string(Import(whole.substr(0, whole.size() - 5)).status().message()),
              HasSubstr("cut short, at byte"));
  EXPECT_TRUE(absl::IsDataLoss(Import("[" + std::string(100000, '[')).status()));
}

TEST(ImportTest, OtherFilesAreNamed) {
  EXPECT_THAT(std::string(Import("hello").status().message()), HasSubstr("nothing that can be imported"));
  EXPECT_THAT(std::string(Import("PK\x03\x04 a checkpoint").status().message()), HasSubstr("zip archive"));
  EXPECT_THAT(std::string(Import("\x89PNG").status().message()), HasSubstr("is a picture"));
  const std::string page = "<html><head><title>GPU Memory Timeline HTML</title></head>";
  EXPECT_THAT(std::string(Import(page).status().message()), HasSubstr("export_memory_timeline(\"timeline.json\")"));
  const File empty("");
  EXPECT_FALSE(IsOfOthers(empty.path()));
}

}  // namespace
}  // namespace gpumem
