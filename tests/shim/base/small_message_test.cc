// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/base/small_message.h"

#include <gtest/gtest.h>

#include <string>

namespace gpumemshim {
namespace {

template <size_t kCapacity>
std::string Bytes(const SmallMessage<kCapacity>& message) {
  return {static_cast<const char*>(message.data()), message.size()};
}

TEST(SmallMessage, IsProtobuf) {
  SmallMessage<64> message;
  message.Varint(1, 300).Varint(2, 0).Text(3, "ab", 2).Text(4, "", 0).Varint(16, 1);
  EXPECT_TRUE(message.ok());
  EXPECT_EQ(Bytes(message), std::string("\x08\xac\x02\x1a\x02"
                                        "ab\x80\x01\x01"));
}

TEST(SmallMessage, WhatFindsNoRoomIsLeftOutWhole) {
  SmallMessage<32> message;
  message.Varint(1, 1).Text(2, "0123456789", 10).Text(3, "0123456789", 10).Varint(4, 1);
  EXPECT_FALSE(message.ok());
  EXPECT_EQ(Bytes(message), std::string("\x08\x01\x12\x0a") + "0123456789");
}

}  // namespace
}  // namespace gpumemshim
