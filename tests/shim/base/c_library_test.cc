// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/base/c_library.h"

#include <gtest/gtest.h>
#include <link.h>
#include <unistd.h>

#include <cstring>

#include "shim/base/plain_text.h"

// Stands in front of the C library's, as the runtime of a sanitizer does. One that such a runtime does not need itself.
extern "C" int getdtablesize() noexcept { return -1; }

namespace gpumemshim {
namespace {

TEST(CLibrary, FindsItsOwnBehindWhoeverStandsInFront) {
  EXPECT_EQ(getdtablesize(), -1);
  const auto real = reinterpret_cast<decltype(&getdtablesize)>(c_library::Find("getdtablesize"));
  ASSERT_NE(real, nullptr);
  EXPECT_GE(real(), 3);
}

TEST(CLibrary, AsksTheResolverOfAnIndirectFunction) {
  const auto copy = reinterpret_cast<decltype(&memcpy)>(c_library::Find("memcpy"));
  ASSERT_NE(copy, nullptr);
  char out[6] = {};
  copy(out, "bytes", 6);
  EXPECT_STREQ(out, "bytes");
}

TEST(CLibrary, FindsTheLoadersFunctionsAndNothingElse) {
  EXPECT_NE(c_library::Find("dl_iterate_phdr"), nullptr);
  EXPECT_NE(c_library::Find("dlsym"), nullptr);
  EXPECT_EQ(c_library::Find("cuInit"), nullptr);
  EXPECT_EQ(c_library::Find(""), nullptr);
}

TEST(PlainText, ComparesAsTheCLibraryDoes) {
  const char* texts[] = {"", "a", "ab", "abc", "abd", "/a/b", "libc.so.6", "libc.so"};
  for (const char* a : texts) {
    EXPECT_EQ(plain::Length(a), std::strlen(a));
    for (const char* b : texts) {
      EXPECT_EQ(plain::Equal(a, b), std::strcmp(a, b) == 0) << a << " " << b;
      EXPECT_EQ(plain::StartsWith(a, b), std::strncmp(a, b, std::strlen(b)) == 0) << a << " " << b;
    }
  }
  EXPECT_FALSE(plain::StartsWith(nullptr, "a"));
}

TEST(PlainText, NamesOfFilesAndCopies) {
  EXPECT_STREQ(plain::FileName("/usr/lib/libc.so.6"), "libc.so.6");
  EXPECT_STREQ(plain::FileName("name"), "name");
  EXPECT_STREQ(plain::FileName("/usr/"), "");
  EXPECT_EQ(plain::FileName(nullptr), nullptr);
  char out[4] = "xyz";
  EXPECT_FALSE(plain::Copy("long", out, sizeof out));
  EXPECT_STREQ(out, "xyz");
  EXPECT_TRUE(plain::Copy("abc", out, sizeof out));
  EXPECT_STREQ(out, "abc");
}

}  // namespace
}  // namespace gpumemshim
