// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "export/python_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace gpumem {
namespace {

// Expected values are what CPython 3.11 prints.
TEST(PythonTextTest, FloatsAreAsReprPrintsThem) {
  EXPECT_EQ(PythonFloat(0), "0.0");
  EXPECT_EQ(PythonFloat(-3), "-3.0");
  EXPECT_EQ(PythonFloat(128), "128.0");
  EXPECT_EQ(PythonFloat(0.1), "0.1");
  EXPECT_EQ(PythonFloat(1.23), "1.23");
  EXPECT_EQ(PythonFloat(1e15), "1000000000000000.0");
  EXPECT_EQ(PythonFloat(1e16), "1e+16");
  EXPECT_EQ(PythonFloat(0.0001), "0.0001");
  EXPECT_EQ(PythonFloat(0.00001), "1e-05");
  EXPECT_EQ(PythonFloat(2.0 / 3), "0.6666666666666666");
  EXPECT_EQ(PythonFloat(std::nan("")), "null");
}

TEST(PythonTextTest, TimesAreInUtc) {
  constexpr uint64_t kTime = 1'705'314'616'123'456'789;
  EXPECT_EQ(PythonIsoTime(kTime), "2024-01-15T10:30:16.123456");
  EXPECT_EQ(PythonIsoTime(kTime - 123'456'789), "2024-01-15T10:30:16");
  EXPECT_EQ(PythonTime(kTime, "%Y%m%d_%H%M%S"), "20240115_103016");
}

}  // namespace
}  // namespace gpumem
