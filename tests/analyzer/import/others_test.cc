// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What is of no kind that can be imported, and what to do instead.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "imported.h"

namespace gpumem {
namespace {

using ::testing::HasSubstr;

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
