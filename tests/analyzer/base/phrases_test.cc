// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "base/phrases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace gpumem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::string_view kTable = R"(# a comment
@cells category | what it is
peak
  峰值
Peak of GPU {n}: {b} at {d}
  GPU {n} 的峰值：{d} 时为 {b}
{n} block[s] of {b} [was|were] kept by {x}
  {x}保留了 {n} 个内存块，共 {b}
a variable
  变量
asked by
  申请者
{w} has ended. Nothing was lost.
  {w} 已结束，没有丢失任何数据。
Nothing was lost.
  没有丢失任何数据。
{p} of {w1} is {w2}
  {w1} 的 {p} 是 {w2}
)";

TEST(PhrasesTest, HolesTakeWhatTheyAreFor) {
  const Phrases phrases(kTable);
  EXPECT_THAT(phrases.mistakes(), IsEmpty());
  EXPECT_EQ(phrases.In("peak"), "峰值");
  EXPECT_EQ(phrases.In("Peak of GPU 0: 17.51 GiB at 1 min 20 s"), "GPU 0 的峰值：1 min 20 s 时为 17.51 GiB");
  EXPECT_EQ(phrases.In("1 block of 4 B was kept by a variable"), "变量保留了 1 个内存块，共 4 B");
  EXPECT_EQ(phrases.In("1,204 blocks of 4.5 KiB were kept by foo.bar"), "foo.bar 保留了 1,204 个内存块，共 4.5 KiB");
  EXPECT_EQ(phrases.In("12.5 % of peak is free"), "peak 的 12.5 % 是 free");
  EXPECT_EQ(phrases.In("Peak of GPU x: 17.51 GiB at 3 s"), "Peak of GPU x: 17.51 GiB at 3 s");
  EXPECT_EQ(phrases.In("Peak of GPU 0: 17 at 3 s"), "Peak of GPU 0: 17 at 3 s");
}

TEST(PhrasesTest, PartsOfWhatIsNoPhrase) {
  const Phrases phrases(kTable);
  EXPECT_EQ(phrases.In("  peak  1 GiB "), "  峰值  1 GiB ");
  EXPECT_EQ(phrases.In("asked by: train.py:3 (peak)"), "申请者：train.py:3 (峰值)");
  EXPECT_EQ(phrases.In("Nothing was lost. 3 more things."), "没有丢失任何数据。3 more things.");
  EXPECT_EQ(phrases.In("train.py has ended. Nothing was lost."), "train.py 已结束，没有丢失任何数据。");
  EXPECT_EQ(phrases.In("no phrase, none"), "no phrase, none");
  EXPECT_EQ(phrases.InLines("\npeak\n\npeak\n"), "\n峰值\n\n峰值\n");
  EXPECT_TRUE(phrases.HasWords("category"));
  EXPECT_FALSE(phrases.HasWords("module"));
}

TEST(PhrasesTest, AHoleEndsWithItsSentence) {
  const Phrases phrases("cannot open {w}: {x}[.]\n  无法打开 {w}：{x}。\nno file\n  没有文件\nWhy?\n  为何？\n");
  EXPECT_EQ(phrases.In("cannot open a b.py: no file"), "无法打开 a b.py：没有文件。");
  EXPECT_EQ(phrases.In("cannot open a.py: no file. Name one."), "无法打开 a.py：没有文件。Name one.");
  EXPECT_EQ(phrases.In("Why? Name one."), "为何？Name one.");
}

TEST(PhrasesTest, AHoleEndsWithItsColumn) {
  const Phrases phrases(
      "{x} {b}\n  {x} {b}\nat most {b}\n  最多 {b}\n{x}  the last {b}\n  {x}  最近 {b}\na step\n  一步\n");
  EXPECT_EQ(phrases.In("max_peak   at most 1 GiB"), "max_peak   最多 1 GiB");
  EXPECT_EQ(phrases.In("a step   a step  the last 1 GiB"), "一步     一步  最近 1 GiB")
      << "a phrase may name its columns";
}

TEST(PhrasesTest, ParenthesesAreThoseThatBelongTogether) {
  const Phrases phrases("forward {b}\n  前向 {b}\nbackward {b}\n  反向 {b}\n");
  EXPECT_EQ(phrases.In("forward 1 GiB (9 %), backward 1 MiB (<1 %)"), "前向 1 GiB (9 %)，反向 1 MiB (<1 %)");
}

TEST(PhrasesTest, ANameHoldsNothingThatIsSaidOfIt) {
  const Phrases phrases("{w}: kept by {x}.\n  {w}：由{x}持有。\n{w}, a global of {w1}\n  {w1} 的 {w}\n");
  EXPECT_EQ(phrases.In("a.py:3 f: kept by cache, a global of a.py."), "a.py:3 f：由 a.py 的 cache 持有。");
  EXPECT_EQ(phrases.In("<0.1 %"), "<0.1 %");
}

TEST(PhrasesTest, WhatFitsMoreCloselyComesFirst) {
  const Phrases phrases("flag {w}\n  选项 {w}\n{x}, in {w}. See the help.\n  {w}：{x}。见帮助。\n");
  EXPECT_EQ(phrases.In("flag -a, in leaks. See the help."), "leaks：选项 -a。见帮助。");
}

TEST(PhrasesTest, WhoFillsHolesByItselfAsksForTheWholePhrase) {
  const Phrases phrases("peak\n  峰值\n{n} block[s]\n  {n} 个内存块\n");
  ASSERT_NE(phrases.Whole("{n} block[s]"), nullptr);
  EXPECT_EQ(*phrases.Whole("{n} block[s]"), "{n} 个内存块");
  EXPECT_EQ(*phrases.Whole("peak"), "峰值");
  EXPECT_EQ(phrases.Whole("3 blocks"), nullptr);
}

TEST(PhrasesTest, MistakesAreNamed) {
  const Phrases phrases("a\nb\n  c\n  d\nx {n\n  y\nx {n}\n  {b}\nb\n  e\n{q}\n  f\n");
  EXPECT_THAT(phrases.mistakes(), ElementsAre(HasSubstr("a is not translated"), HasSubstr("a translation of nothing"),
                                              HasSubstr("does not end"), HasSubstr("{b} is not in the English phrase"),
                                              HasSubstr("b is there twice"), HasSubstr("{q} is no hole")));
}

// Whatever stands in a table of the product can be read.
TEST(PhrasesTest, TheChineseTableHasNoMistake) {
  ASSERT_NE(Phrases::Of("zh"), nullptr);
  EXPECT_THAT(Phrases::Of("zh")->mistakes(), IsEmpty());
  EXPECT_EQ(Phrases::Of("en"), nullptr);
}

TEST(PhrasesTest, TheEnvironmentChooses) {
  ASSERT_EQ(setenv("LC_ALL", "zh_CN.UTF-8", 1), 0);
  EXPECT_NE(Phrases::OfEnvironment(), nullptr);
  ASSERT_EQ(setenv("LC_ALL", "zh_CN.GBK", 1), 0);
  EXPECT_EQ(Phrases::OfEnvironment(), nullptr);
  ASSERT_EQ(setenv("LC_ALL", "C.UTF-8", 1), 0);
  EXPECT_EQ(Phrases::OfEnvironment(), nullptr);
}

}  // namespace
}  // namespace gpumem
