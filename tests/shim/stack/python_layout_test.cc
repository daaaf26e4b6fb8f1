// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/stack/python_layout.h"

#include <gtest/gtest.h>

#include "shim/stack/memory_read.h"
#include "shim/stack/python_interpreter.h"

namespace gpumemshim::stack {
namespace {

TEST(PythonLayout, KnownVersions) {
  for (int minor = 9; minor <= 15; ++minor) {
    const PythonLayout* layout = FindPythonLayout(minor);
    ASSERT_NE(layout, nullptr) << minor;
    EXPECT_EQ(layout->minor, minor);
    EXPECT_EQ(layout->position == Position::kPointer, layout->code_bytecode != 0) << minor;
  }
  EXPECT_EQ(FindPythonLayout(8), nullptr);
  EXPECT_EQ(FindPythonLayout(16), nullptr);
}

TEST(PythonLayout, ReadsTheVersionText) {
  EXPECT_EQ(ReadableMinor("3.11.7 (main, May  9 2026, 07:35:25) [GCC 12.2.0]"), 11);
  EXPECT_EQ(ReadableMinor("3.9.18 (default)"), 9);
  EXPECT_EQ(ReadableMinor("3.13.0 experimental free-threading build (main)"), 0);
  EXPECT_EQ(ReadableMinor("2.7.18 (default)"), 0);
  EXPECT_EQ(ReadableMinor("3.14.0rc2 (main)"), 14);
  EXPECT_EQ(ReadableMinor("3.15.0b1 (main)"), 0);
  EXPECT_EQ(ReadableMinor("3.x"), 0);
  EXPECT_EQ(ReadableMinor(nullptr), 0);
}

TEST(PythonLayout, NoInterpreterHere) {
  EXPECT_EQ(FindInterpreter(), nullptr);
  EXPECT_STREQ(Refusal(), "");
}

TEST(MemoryRead, CheckedReadOfWhatIsNotThere) {
  const uint64_t value = 42;
  uint64_t got = 0;
  EXPECT_TRUE(TryRead(&value, 0, &got));
  EXPECT_EQ(got, 42u);
  EXPECT_FALSE(TryRead(nullptr, 56, &got));
  EXPECT_FALSE(TryRead(reinterpret_cast<const void*>(0xDEAD0000DEAD0000u), 0, &got));
}

}  // namespace
}  // namespace gpumemshim::stack
