// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/stack/python_layout.h"

#include <gtest/gtest.h>

#include <cstring>
#include <initializer_list>
#include <string>

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

// The table of a release of 3.14, as its header lays it out.
class FakeRuntime {
 public:
  FakeRuntime() {
    std::memcpy(words_, "xdebugpy", 8);
    Set({{1, 0x030E0AF0},
         {2, 0},
         {26, 72},
         {28, 160},
         {32, 8},
         {33, 0},
         {34, 56},
         {35, 80},
         {36, 74},
         {40, 112},
         {41, 120}});
    Set({{42, 128}, {43, 136}, {44, 68}, {48, 208}, {51, 8}, {75, 16}, {76, 32}, {78, 32}, {79, 16}, {80, 40}});
  }
  struct Entry {
    int word;
    uint64_t value;
  };
  FakeRuntime& Set(std::initializer_list<Entry> entries) {
    for (const Entry& entry : entries) words_[entry.word] = entry.value;
    return *this;
  }
  std::string Read(PythonLayout* layout) const { return ReadDebugOffsets(words_, layout); }

 private:
  uint64_t words_[128] = {};
};

std::string WhyNot(const FakeRuntime& runtime) {
  PythonLayout layout = *FindPythonLayout(14);
  const std::string why = runtime.Read(&layout);
  EXPECT_TRUE(layout == *FindPythonLayout(14) || why.empty());
  return why;
}

TEST(PythonOffsets, ReleaseIsAsKnown) {
  PythonLayout layout = *FindPythonLayout(14);
  EXPECT_EQ(FakeRuntime().Read(&layout), "");
  EXPECT_EQ(layout, *FindPythonLayout(14));
}

TEST(PythonOffsets, TheBuildsOwnWordCounts) {
  PythonLayout layout = *FindPythonLayout(14);
  EXPECT_EQ(FakeRuntime().Set({{26, 88}, {40, 120}, {80, 48}}).Read(&layout), "");
  EXPECT_EQ(layout.thread_frame, 88);
  EXPECT_EQ(layout.code_filename, 120);
  EXPECT_EQ(layout.ascii_data, 48);
  EXPECT_EQ(layout.compact_data, 64);
  EXPECT_EQ(layout.code_version, 0);  // where it lies in such a build nobody says
}

TEST(PythonOffsets, Refusals) {
  EXPECT_EQ(WhyNot(FakeRuntime().Set({{0, 0}})), "this Python has no table of its offsets (_Py_DebugOffsets)");
  EXPECT_EQ(WhyNot(FakeRuntime().Set({{1, 0x030D00F0}})), "this Python's table of offsets is of another version");
  EXPECT_EQ(WhyNot(FakeRuntime().Set({{2, 1}})), "free-threaded build of Python");
  EXPECT_EQ(WhyNot(FakeRuntime().Set({{51, 24}})), "this Python's objects are laid out otherwise (Py_TRACE_REFS?)");
  EXPECT_EQ(WhyNot(FakeRuntime().Set({{34, 1u << 20}})), "this Python's table of offsets does not make sense");
  PythonLayout layout = *FindPythonLayout(14);
  EXPECT_STREQ(ReadDebugOffsets(nullptr, &layout), "this Python has no table of its offsets (_Py_DebugOffsets)");
  EXPECT_STRNE(ReadDebugOffsets(reinterpret_cast<const void*>(0xDEAD0000DEAD0000u), &layout), "");
}

}  // namespace

}  // namespace gpumemshim::stack
