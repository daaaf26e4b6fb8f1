// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "web/flame_page.h"

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "base/json_writer.h"

namespace gpumem {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(FlamePage, HoldsItsData) {
  const std::string page = FlamePage(R"({"some":"data"})", "en");
  EXPECT_THAT(page, HasSubstr(R"({"some":"data"})"));
  EXPECT_THAT(page, Not(HasSubstr("@DATA@")));
}

// Where a browser runs, the page refuses other data; here without one.
TEST(FlamePage, ReadsTheVersionThatIsWritten) {
  EXPECT_THAT(FlamePage("{}", "en"), HasSubstr(absl::StrCat("raw.schema_version !== ", kJsonSchemaVersion, ")")));
}

}  // namespace
}  // namespace gpumem
