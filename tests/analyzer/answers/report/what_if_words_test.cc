// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <gmock/gmock.h>

#include "answers/report/sections.h"
#include "fixture.h"
#include "render/draw.h"
#include "testing/sizes.h"

namespace gpumem {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::kGiB;
using ::testing::Not;

WhatIfAnswer Answer() {
  WhatIfAnswer answer;
  answer.torch = "2.11.0";
  answer.is_exact = true;
  answer.recorded = {"", 12 * kGiB, std::nullopt};
  answer.other = {"expandable_segments:True", 9 * kGiB, std::nullopt};
  return answer;
}

std::string Words(const WhatIfAnswer& answer) {
  TextStyle style;
  style.width = 200;
  Document text;
  AddWhatIf(answer, &text);
  return ToText(text, style);
}

TEST(WhatIfWordsTest, WhatTheOtherSettingWouldHaveReserved) {
  WhatIfAnswer answer = Answer();
  EXPECT_THAT(Words(answer), HasSubstr("expandable_segments:True would have reserved 9 GiB at most, 3 GiB less"));
  answer.other = {"", 12 * kGiB, std::nullopt};
  EXPECT_THAT(Words(answer), HasSubstr("PyTorch's defaults would have reserved 12 GiB at most, as much"));
}

TEST(WhatIfWordsTest, DoubtIsSaid) {
  WhatIfAnswer answer = Answer();
  answer.is_exact = false;
  answer.doubts = {"events are missing from the trace"};
  EXPECT_THAT(Words(answer), AllOf(HasSubstr("about 9 GiB"), HasSubstr("events are missing")));
  answer.why_not = "no Python with PyTorch found";
  EXPECT_THAT(Words(answer), AllOf(HasSubstr("Not known"), HasSubstr("no Python"), Not(HasSubstr("9 GiB"))));
}

// Of a failed request, by what the number was found.
TEST(WhatIfWordsTest, AFitIsAnEstimateOrNot) {
  testing::Example example = testing::OomExample();
  WhatIfAnswer answer = Answer();
  answer.other.fit = 3 * kGiB;
  const auto explained = [&] {
    TextStyle style;
    style.width = 200;
    const ReportInput input = example.input();
    Document text;
    AddOomExplanation(input, &answer, TextOptions{Detail::kFull}, &text);
    return ToText(text, style);
  };
  EXPECT_THAT(explained(), AllOf(HasSubstr("by replay in PyTorch 2.11.0"), Not(HasSubstr("estimate"))));
  answer.is_exact = false;
  EXPECT_THAT(explained(), HasSubstr("by a replay in PyTorch 2.11.0 that is not exact"));
  answer.why_not = "no Python";
  EXPECT_THAT(explained(), AllOf(HasSubstr("estimate: with expandable"), HasSubstr("nothing was replayed: no Python")));
}

}  // namespace
}  // namespace gpumem
