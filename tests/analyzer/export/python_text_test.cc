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

using ::testing::EndsWith;

// The opcodes are those of Python's pickletools; what Python reads of them is in tests/e2e/export_test.py.
TEST(PickleWriterTest, NumbersKeepTheirSignAndAllTheirBits) {
  const auto bytes = [](uint64_t value) {
    std::string out;
    PickleWriter(&out).Number(value);
    return out;
  };
  EXPECT_EQ(bytes(255), "K\xff");
  EXPECT_EQ(bytes(256), std::string("J\x00\x01\x00\x00", 5));
  EXPECT_EQ(bytes(0x80000000u), std::string("\x8a\x05\x00\x00\x00\x80\x00", 7));  // no sign: a zero behind it
  EXPECT_EQ(bytes(0x7fff00000000u), std::string("\x8a\x06\x00\x00\x00\x00\xff\x7f", 8));
  EXPECT_EQ(bytes(UINT64_MAX), std::string("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00", 11));
  std::string out;
  PickleWriter(&out).Signed(-1);
  EXPECT_EQ(out, "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\xff");
}

TEST(PickleWriterTest, ATextIsWrittenOnce) {
  std::string out;
  PickleWriter pickle(&out);
  pickle.Text("addr");
  pickle.Text("addr");
  EXPECT_EQ(out, std::string("X\x04\x00\x00\x00"
                             "addr"
                             "q\x00"
                             "h\x00",
                             13));
}

TEST(PickleWriterTest, LongListsComeInGroups) {
  std::string out;
  PickleWriter pickle(&out);
  pickle.BeginList();
  for (int i = 0; i < 2500; ++i) {
    pickle.Item();
    pickle.Number(1);
  }
  pickle.EndList();
  EXPECT_EQ(std::count(out.begin(), out.end(), '('), 3);
  EXPECT_EQ(std::count(out.begin(), out.end(), 'e'), 3);
  EXPECT_THAT(out, EndsWith("e"));
}

}  // namespace
}  // namespace gpumem
