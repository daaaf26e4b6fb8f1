// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "trace/module_symbols.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpumem/trace.pb.h"
#include "trace/stack_table.h"

namespace gpumem {
namespace {

using ::testing::ElementsAre;

ModuleSymbols Example() {
  ModuleSymbols symbols;
  symbols.Add(0x2000, {{"inner(int)", "a.h", 12}, {"outer()", "a.cc", 40}});
  symbols.Add(0x1000, {{"other()", "", 0}});
  symbols.Add(0x3000, {});
  return symbols;
}

TEST(ModuleSymbolsTest, KeepsWhatIsAdded) {
  const ModuleSymbols symbols = Example();
  EXPECT_THAT(symbols.Addresses(), ElementsAre(0x1000, 0x2000, 0x3000));
  ASSERT_EQ(symbols.At(0x2000).size(), 2u);
  EXPECT_EQ(symbols.At(0x2000)[0].function, "inner(int)");
  EXPECT_EQ(symbols.At(0x2000)[1].line, 40u);
  EXPECT_TRUE(symbols.Has(0x3000));
  EXPECT_TRUE(symbols.At(0x3000).empty()) << "looked up, and nothing is known";
  EXPECT_FALSE(symbols.Has(0x4000));
}

TEST(ModuleSymbolsTest, WhatIsThereStays) {
  ModuleSymbols symbols = Example(), more;
  symbols.Add(0x1000, {{"changed()", "", 0}});
  more.Add(0x1000, {{"changed()", "", 0}});
  more.Add(0x5000, {{"new()", "", 0}});
  symbols.TakeFrom(more);
  EXPECT_EQ(symbols.At(0x1000)[0].function, "other()");
  EXPECT_EQ(symbols.At(0x5000)[0].function, "new()");
}

TEST(ModuleSymbolsTest, SurvivesItsBytes) {
  ModuleSymbols read;
  ASSERT_TRUE(read.Parse(Example().Serialize(7)).ok());
  EXPECT_EQ(read.Addresses(), Example().Addresses());
  ASSERT_EQ(read.At(0x2000).size(), 2u);
  EXPECT_EQ(read.At(0x2000)[0].function, "inner(int)");
  EXPECT_EQ(read.At(0x2000)[0].line, 12u);
  EXPECT_EQ(read.At(0x2000)[1].file, "a.cc");
  EXPECT_EQ(read.At(0x1000)[0].file, "");
  EXPECT_TRUE(read.Has(0x3000));
  EXPECT_TRUE(read.At(0x3000).empty());
  trace::ModuleSymbols message;
  ASSERT_TRUE(message.ParseFromString(read.Serialize(7)));
  EXPECT_EQ(message.module(), 7u);
}

TEST(ModuleSymbolsTest, TakesAnyText) {
  ModuleSymbols symbols, read;
  symbols.Add(1, {{"\xff\xfe\x1b[31m", std::string("a\0b", 3), 1}});
  ASSERT_TRUE(read.Parse(symbols.Serialize()).ok()) << "protobuf refuses what is not UTF-8";
  EXPECT_EQ(read.At(1)[0].function.find('\x1b'), std::string::npos);
}

TEST(ModuleSymbolsTest, CutsEndlessInlining) {
  ModuleSymbols symbols, read;
  std::vector<NativeFunction> functions(1000, {"inlined", "", 0});
  functions.back().function = "outermost";
  symbols.Add(1, functions);
  EXPECT_EQ(symbols.At(1).size(), ModuleSymbols::kMaxFunctions);
  EXPECT_EQ(symbols.At(1).back().function, "outermost");
  EXPECT_TRUE(read.Parse(symbols.Serialize()).ok());
}

TEST(ModuleSymbolsTest, RefusesImpossibleMessages) {
  const auto refused = [](void (*change)(trace::ModuleSymbols*)) {
    trace::ModuleSymbols message;
    message.ParseFromString(Example().Serialize());
    change(&message);
    ModuleSymbols symbols;
    const bool ok = symbols.Parse(message.SerializeAsString()).ok();
    return !ok && symbols.size() == 0;
  };
  EXPECT_TRUE(refused([](trace::ModuleSymbols* m) { m->add_depth(1); }));
  EXPECT_TRUE(refused([](trace::ModuleSymbols* m) { m->set_depth(0, 4'000'000'000); }));
  EXPECT_TRUE(refused([](trace::ModuleSymbols* m) { m->add_function(1); }));
  EXPECT_TRUE(refused([](trace::ModuleSymbols* m) { m->mutable_file()->RemoveLast(); }));
  EXPECT_TRUE(refused([](trace::ModuleSymbols* m) { m->add_line(1); }));
  EXPECT_TRUE(refused([](trace::ModuleSymbols* m) { m->set_function(0, 99); }));
  EXPECT_TRUE(refused([](trace::ModuleSymbols* m) { m->set_file(0, 0xffffffff); }));
  ModuleSymbols symbols;
  EXPECT_FALSE(symbols.Parse("nonsense").ok());
}

TEST(ModuleSymbolsTest, AreDefinitions) {
  trace::Definitions definitions;
  definitions.add_symbols()->ParseFromString(Example().Serialize(3));
  StackTable table;
  ASSERT_TRUE(table.Add(definitions.SerializeAsString()).ok());
  ASSERT_NE(table.symbols(3), nullptr);
  EXPECT_EQ(table.symbols(3)->At(0x1000)[0].function, "other()");
  EXPECT_EQ(table.symbols(4), nullptr);
  definitions.mutable_symbols(0)->set_module(0);
  EXPECT_FALSE(StackTable().Add(definitions.SerializeAsString()).ok());
}

}  // namespace
}  // namespace gpumem
