// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/settings/text.h"

#include <gtest/gtest.h>

#include <limits>

namespace gpumemshim::control {
namespace {

TEST(Text, Numbers) {
  char out[64];
  Text text(out, sizeof out);
  text.Add(uint64_t{0}).Add(' ').Add(std::numeric_limits<uint64_t>::max()).Add(' ').AddGrouped(1234567);
  EXPECT_STREQ(out, "0 18446744073709551615 1,234,567");
  EXPECT_EQ(text.size(), std::strlen(out));
}

TEST(Text, Printable) {
  const struct {
    const char* from;
    const char* to;
  } cases[] = {
      {"run one.gmtrace", "run one.gmtrace"},
      {"\xc3\xa4\xe6\xbc\xa2\xf0\x9f\x98\x80", "\xc3\xa4\xe6\xbc\xa2\xf0\x9f\x98\x80"},
      {"a\nb\tc\x7f", "a?b?c?"},
      {"\x1b[31m", "?[31m"},
      {"\xc2\x9b"
       "31m",
       "??31m"},  // CSI of eight bits
      {"a\xe2\x80\xae"
       "cba",
       "a???cba"},                               // right to left
      {"a\xe2\x81\xa6\xe2\x81\xa9", "a??????"},  // isolates
      {"\xe2\x80\xa8", "???"},                   // line separator
      {"\xff\xc0\xaf\xed\xa0\x80", "??????"},    // no UTF-8: never a byte, too long, a surrogate
      {"cut \xe6\xbc", "cut ??"},
      {"\xf4\x90\x80\x80", "????"},
  };
  for (const auto& c : cases) {
    char out[64];
    Text(out, sizeof out).AddPrintable(c.from);
    EXPECT_STREQ(out, c.to);
    EXPECT_EQ(IsPrintable(c.from), std::strcmp(c.from, c.to) == 0) << c.to;
  }
}

TEST(Text, Bytes) {
  const struct {
    uint64_t bytes;
    const char* text;
  } cases[] = {{0, "0 B"},
               {1023, "1023 B"},
               {1024, "1 KiB"},
               {1536, "1.5 KiB"},
               {62464, "61 KiB"},
               {uint64_t{1} << 20, "1 MiB"},
               {uint64_t{3} << 29, "1.5 GiB"}};
  for (const auto& c : cases) {
    char out[32];
    Text(out, sizeof out).AddBytes(c.bytes);
    EXPECT_STREQ(out, c.text);
  }
}

TEST(Text, CutsAndTells) {
  char out[4];
  Text text(out, sizeof out);
  text.Add("ab");
  EXPECT_FALSE(text.overflowed());
  text.Add("cd");
  EXPECT_TRUE(text.overflowed());
  EXPECT_STREQ(out, "abc");
}

}  // namespace
}  // namespace gpumemshim::control
