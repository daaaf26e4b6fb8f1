// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/control/text.h"

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
