// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "trace/compiled_lines.h"

#include <gtest/gtest.h>

#include "gpumem/trace.pb.h"
#include "trace/object_table.h"

namespace gpumem {
namespace {

// Lines 10 to 19 compute model.py:5, called by model.py:9; 20 to 29 nobody knows what; from 30 on model.py:9.
trace::CompiledFile Described() {
  trace::CompiledFile file;
  file.set_file("/tmp/torchinductor_me/ab/cab.py");
  for (const char* text : {"model.py", "Block.forward", "Net.forward"}) file.add_text(text);
  for (const uint32_t line : {10, 20, 30}) file.add_line(line);
  for (const uint32_t depth : {2, 0, 1}) file.add_depth(depth);
  for (const uint32_t module : {7, 0, 3}) file.add_nn_module(module);
  for (int i = 0; i < 3; ++i) file.add_source_file(1);
  for (const uint32_t line : {5, 9, 9}) file.add_source_line(line);
  for (const uint32_t function : {2, 3, 3}) file.add_source_function(function);
  return file;
}

TEST(CompiledLinesTest, APieceReachesToTheNextOne) {
  CompiledLines lines;
  ASSERT_TRUE(lines.Add(Described()).ok());
  const std::string file = Described().file();
  EXPECT_EQ(lines.At(file, 9), nullptr) << "before the first piece";
  EXPECT_EQ(lines.At(file, 25), nullptr) << "a piece of which nothing is known";
  EXPECT_EQ(lines.At("/tmp/other.py", 10), nullptr);
  for (const uint32_t line : {10, 19}) {
    const CompiledPiece* const piece = lines.At(file, line);
    ASSERT_NE(piece, nullptr);
    EXPECT_EQ(piece->nn_module, 7u);
    ASSERT_EQ(piece->sources.size(), 2u);
    EXPECT_EQ(lines.text(piece->sources[0].file), "model.py");
    EXPECT_EQ(lines.text(piece->sources[0].function), "Block.forward");
    EXPECT_EQ(piece->sources[0].line, 5u);
    EXPECT_EQ(lines.text(piece->sources[1].function), "Net.forward");
  }
  ASSERT_NE(lines.At(file, 4000), nullptr);
  EXPECT_EQ(lines.At(file, 4000)->sources.size(), 1u);
}

TEST(CompiledLinesTest, PartsOfAFileAddToEachOther) {
  trace::CompiledFile later = Described();
  for (int i = 0; i < 3; ++i) later.set_line(i, 100 + later.line(i));
  later.set_text(1, "Other.forward");
  CompiledLines lines;
  ASSERT_TRUE(lines.Add(Described()).ok());
  ASSERT_TRUE(lines.Add(later).ok());
  const auto function_at = [&lines](uint32_t line) {
    return lines.text(lines.At(Described().file(), line)->sources[0].function);
  };
  EXPECT_EQ(function_at(12), "Block.forward");
  EXPECT_EQ(function_at(112), "Other.forward");
}

TEST(CompiledLinesTest, ColumnsThatDoNotFitAreDamage) {
  trace::CompiledFile shorter = Described(), deeper = Described(), unnamed = Described();
  shorter.mutable_depth()->RemoveLast();
  deeper.set_depth(2, 4000000000u);
  unnamed.set_source_file(0, 9);
  for (const trace::CompiledFile& file : {shorter, deeper, unnamed}) EXPECT_FALSE(CompiledLines().Add(file).ok());
}

TEST(CompiledLinesTest, AreTheObjectsOfATrace) {
  trace::Definitions definitions;
  *definitions.add_compiled_files() = Described();
  ObjectTable table;
  ASSERT_TRUE(table.Add(definitions).ok());
  EXPECT_NE(table.compiled_lines().At(Described().file(), 10), nullptr);
}

}  // namespace
}  // namespace gpumem
