// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/base/buffer.h"

#include <gtest/gtest.h>

namespace gpumemshim {
namespace {

TEST(BufferTest, GrowsAndKeepsWhatItHolds) {
  Buffer buffer;
  for (size_t size = 1; size <= size_t{1} << 20; size *= 2) {
    ASSERT_TRUE(buffer.Reserve(size));
    buffer.data()[size - 1] = static_cast<uint8_t>(size % 251);
    buffer.Resize(size);
  }
  for (size_t size = 1; size <= size_t{1} << 20; size *= 2) EXPECT_EQ(buffer.data()[size - 1], size % 251);
}

TEST(BufferTest, RefusesMoreThanItsBound) {
  Buffer buffer(10'000);
  EXPECT_TRUE(buffer.Reserve(10'000));
  EXPECT_FALSE(buffer.Reserve(1 << 20));
  EXPECT_GE(buffer.capacity(), 10'000u);
}

TEST(BufferTest, ReleaseAndSwap) {
  Buffer a, b;
  ASSERT_TRUE(a.Reserve(1));
  a.data()[0] = 7;
  a.Resize(1);
  a.Swap(b);
  EXPECT_EQ(a.size(), 0u);
  EXPECT_EQ(b.data()[0], 7);
  b.Release();
  EXPECT_EQ(b.capacity(), 0u);
}

TEST(ArrayTest, PushesValues) {
  Array<uint64_t> array(100'000);
  for (uint64_t i = 0; i < 100'000; i++) ASSERT_TRUE(array.Push(i * 3));
  EXPECT_FALSE(array.Push(0) && array.Reserve(200'000));
  for (uint64_t i = 0; i < 100'000; i++) ASSERT_EQ(array[i], i * 3);
}

}  // namespace
}  // namespace gpumemshim
