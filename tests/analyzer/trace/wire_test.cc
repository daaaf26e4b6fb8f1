// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "trace/wire.h"

#include <gtest/gtest.h>

#include <string>

namespace gpumem {
namespace {

bool ReadWireVarint(const std::string& bytes, uint64_t* value) {
  const char* position = bytes.data();
  return ReadVarint(&position, bytes.data() + bytes.size(), value);
}

TEST(WireTest, ReadsVarints) {
  uint64_t value = 0;
  ASSERT_TRUE(ReadWireVarint("\x01", &value));
  EXPECT_EQ(value, 1u);
  ASSERT_TRUE(ReadWireVarint("\xac\x02", &value));
  EXPECT_EQ(value, 300u);
  ASSERT_TRUE(ReadWireVarint("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", &value));
  EXPECT_EQ(value, UINT64_MAX);
}

TEST(WireTest, RefusesBrokenVarints) {
  uint64_t value = 0;
  EXPECT_FALSE(ReadWireVarint("", &value));
  EXPECT_FALSE(ReadWireVarint("\x80", &value));
  EXPECT_FALSE(ReadWireVarint("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", &value)) << "a 65th bit";
  EXPECT_FALSE(ReadWireVarint("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", &value)) << "eleven bytes";
}

TEST(WireTest, DecodesZigZag) {
  EXPECT_EQ(ZigZagDecode(0), 0);
  EXPECT_EQ(ZigZagDecode(1), -1);
  EXPECT_EQ(ZigZagDecode(2), 1);
  EXPECT_EQ(ZigZagDecode(UINT64_MAX), INT64_MIN);
}

TEST(WireTest, WalksFields) {
  const std::string message(
      "\x08\x05\x12\x03"
      "abc\x1d\x01\x00\x00\x00",
      12);
  WireReader reader(message);
  WireField field;
  ASSERT_TRUE(reader.Next(&field));
  EXPECT_EQ(field.number, 1u);
  EXPECT_EQ(field.varint, 5u);
  ASSERT_TRUE(reader.Next(&field));
  EXPECT_EQ(field.bytes, "abc");
  ASSERT_TRUE(reader.Next(&field));
  EXPECT_EQ(field.type, WireType::kFixed32);
  EXPECT_EQ(field.varint, 1u);
  EXPECT_FALSE(reader.Next(&field));
  EXPECT_TRUE(reader.ok());
}

TEST(WireTest, RefusesWhatLeavesTheMessage) {
  for (const std::string& message : {std::string("\x12\x05"
                                                 "ab"),
                                     std::string("\x09\x01"), std::string("\x0b"), std::string("\x00\x01", 2)}) {
    WireReader reader(message);
    WireField field;
    EXPECT_FALSE(reader.Next(&field));
    EXPECT_FALSE(reader.ok());
  }
}

}  // namespace
}  // namespace gpumem
