// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "cli/record/doctor_conclusion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace gpumem {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ConcludeTest, WithoutAnythingToSayAllIsRecorded) {
  const Conclusion conclusion = Conclude({{"library", Health::kOk, "lib.so", ""},
                                          {"symbols", Health::kWarning, "no debug files", "install some"},
                                          {"rings left", Health::kWarning, "5 MiB", "gpumemshim doctor --clean"}});
  EXPECT_EQ(conclusion.extent, Conclusion::Extent::kAll) << "names and old rings cost no event";
  EXPECT_THAT(conclusion.sentence, HasSubstr("All will be recorded"));
  EXPECT_EQ(conclusion.change, "");
}

TEST(ConcludeTest, AFailureIsTheEndWhateverElseIsThere) {
  const Conclusion conclusion = Conclude({{"driver", Health::kWarning, "no driver", "install one"},
                                          {"program", Health::kFailure, "x is linked statically", "use another"},
                                          {"output", Health::kFailure, "cannot write", "elsewhere"}});
  EXPECT_EQ(conclusion.extent, Conclusion::Extent::kNothing);
  EXPECT_EQ(conclusion.sentence, "Nothing will be recorded: x is linked statically.");
  EXPECT_EQ(conclusion.change, "use another");
}

TEST(ConcludeTest, NamesEachLimitAndChangesTheWorstFirst) {
  const Conclusion conclusion =
      Conclude({{"ring", Health::kWarning, "/dev/shm is small", "give it more"},
                {"python", Health::kWarning, "3.16: stacks will lack Python frames", "use 3.15"},
                {"seen", Health::kWarning, "the driver is loaded 2 times", "one libcuda"}});
  EXPECT_EQ(conclusion.extent, Conclusion::Extent::kPart);
  EXPECT_THAT(conclusion.sentence, HasSubstr("go past the recorder, perhaps without Python frames, perhaps without"));
  EXPECT_THAT(conclusion.sentence, Not(HasSubstr("driver")));
  EXPECT_EQ(conclusion.change, "one libcuda");
}

}  // namespace
}  // namespace gpumem
