// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/stack/python_code.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace gpumemshim::stack {
namespace {

std::string Encode(uint32_t code_point) {
  char out[4];
  return {out, EncodeUtf8(code_point, out, sizeof out)};
}

TEST(PythonCode, Utf8) {
  EXPECT_EQ(Encode('a'), "a");
  EXPECT_EQ(Encode(0xE9), "é");
  EXPECT_EQ(Encode(0x5305), "包");
  EXPECT_EQ(Encode(0x1F600), "😀");
  EXPECT_EQ(Encode(0xD800), "\xEF\xBF\xBD");
  EXPECT_EQ(Encode(0x110000), "\xEF\xBF\xBD");
  char out[1];
  EXPECT_EQ(EncodeUtf8(0xE9, out, sizeof out), 0u);
}

// A str object of 3.11, made by hand.
class FakeString {
 public:
  FakeString(const void* type, uint32_t kind, bool ascii, int64_t length, const void* data, size_t bytes)
      : memory_(128 + bytes) {
    const uint32_t state = kind << 2 | 1u << 5 | (ascii ? 1u << 6 : 0u);
    std::memcpy(&memory_[kObjectType], &type, sizeof type);
    std::memcpy(&memory_[kObjectSize], &length, sizeof length);
    std::memcpy(&memory_[kStringState], &state, sizeof state);
    std::memcpy(&memory_[ascii ? 48 : 72], data, bytes);
  }
  const void* object() const { return memory_.data(); }

 private:
  std::vector<char> memory_;
};

class ReadStringTest : public testing::Test {
 protected:
  ReadStringTest() {
    python_.layout = *FindPythonLayout(11);
    python_.string_type = this;
  }
  std::string Read(const FakeString& string, size_t capacity = 64) {
    char buffer[64];
    Text text{};
    return ReadString(python_, string.object(), buffer, capacity, &text) ? std::string(text.data, text.size)
                                                                         : "(unreadable)";
  }
  Interpreter python_{};
};

TEST_F(ReadStringTest, EachWidth) {
  const uint16_t wide[] = {0x5305, 'x'};
  const uint32_t widest[] = {0x1F600};
  EXPECT_EQ(Read({this, 1, true, 3, "abc", 3}), "abc");
  EXPECT_EQ(Read({this, 1, false, 2, "\xE9x", 2}), "éx");
  EXPECT_EQ(Read({this, 2, false, 2, wide, sizeof wide}), "包x");
  EXPECT_EQ(Read({this, 4, false, 1, widest, sizeof widest}), "😀");
}

TEST_F(ReadStringTest, CutsAtACharacter) {
  EXPECT_EQ(Read({this, 1, true, 5, "abcde", 5}, 3), "abc");
  EXPECT_EQ(Read({this, 1, false, 2, "\xE9\xE9", 2}, 3), "é");
}

TEST_F(ReadStringTest, RefusesOtherObjects) {
  EXPECT_EQ(Read({nullptr, 1, true, 3, "abc", 3}), "(unreadable)");
  EXPECT_EQ(Read({this, 3, false, 1, "abcd", 4}), "(unreadable)");
  EXPECT_EQ(Read({this, 1, true, -1, "abc", 3}), "(unreadable)");
}

}  // namespace
}  // namespace gpumemshim::stack
