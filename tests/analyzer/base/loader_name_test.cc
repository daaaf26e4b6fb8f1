// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "base/loader_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpumem {
namespace {

using ::testing::HasSubstr;

TEST(NameForLoader, IsThePathWhereTheLoaderCanReadIt) {
  const auto name = NameForLoader("/opt/lib/a.so");
  ASSERT_TRUE(name.ok());
  EXPECT_EQ(name->preload, "/opt/lib/a.so");
  EXPECT_EQ(name->folder, "");
}

TEST(NameForLoader, IsTheFileNameWhereAFolderHasABlank) {
  const auto name = NameForLoader("/my tools/lib/a.so");
  ASSERT_TRUE(name.ok());
  EXPECT_EQ(name->preload, "a.so");
  EXPECT_EQ(name->folder, "/my tools/lib");
}

TEST(NameForLoader, SaysWhatToDoWhereNeitherVariableCanHoldIt) {
  for (const char* path : {"/a:b/a.so", "/a b;c/a.so", "/a $x/a.so", "/a/b c.so", "a b.so"}) {
    const auto name = NameForLoader(path);
    ASSERT_FALSE(name.ok()) << path;
    EXPECT_THAT(std::string(name.status().message()), HasSubstr("GPUMEMSHIM_LIBRARY"));
  }
}

TEST(LibraryPathWith, PutsTheFolderLast) {
  EXPECT_EQ(LibraryPathWith(nullptr, "/my tools"), "/my tools");
  EXPECT_EQ(LibraryPathWith("", "/my tools"), "/my tools");
  EXPECT_EQ(LibraryPathWith("/a:/b", "/my tools"), "/a:/b:/my tools");
}

}  // namespace
}  // namespace gpumem
