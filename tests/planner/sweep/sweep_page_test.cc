// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <gmock/gmock.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/utf8.h"
#include "example_rows.h"
#include "planner/sweep/sweep_document.h"
#include "planner/sweep/words.h"
#include "render/draw.h"

namespace gpumem::plan {
namespace {

using ::testing::AllOf;
using testing::AnswerOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using testing::kMiB;
using ::testing::Not;

std::string Text(const SweepAnswer& answer, int width = 1000) {
  TextStyle style;
  style.width = width;
  style.utf8 = true;
  return ToText(SweepDocument(answer), style);
}

TEST(SweepPageTest, ALineForEachConfiguration) {
  SweepAnswer answer = AnswerOf(testing::GptRows());
  answer.left = 4;
  EXPECT_THAT(Text(answer),
              AllOf(HasSubstr("python train.py --seq-len {seq_len} --batch-size {batch_size}\n"
                              "  RTX4090 (24 GiB), simulated: no GPU was used\n"
                              "  20 configurations, steps: 5, 93.5 s\n"
                              "  4 configurations did not run\n"),
                    HasSubstr("   #  seq_len  batch_size  allocated   reserved  nvidia-smi    time  result\n"
                              "   1      256           1   2.08 GiB   2.22 GiB    2.74 GiB   4.6 s  fits\n"),
                    HasSubstr("  20     4096           8  64.31 GiB  68.19 GiB   68.71 GiB  21.3 s  out of memory\n"),
                    HasSubstr("  #16, #19, #20  needs more than the device has\n")));
}

TEST(SweepPageTest, TheBestTheLawsAndWhatItIsMadeOf) {
  const std::string text = Text(AnswerOf(testing::GptRows()));
  EXPECT_THAT(text, AllOf(HasSubstr("  largest that fits: #18: seq_len=4096, batch_size=2; allocated 17.46 GiB, "
                                    "nvidia-smi 19.05 GiB\n"),
                          HasSubstr("  least memory: #1: seq_len=256, batch_size=1;"),
                          HasSubstr("  seq_len     memory grows quadratically: 3.70 GiB at 256, 64.31 GiB at 4096;"),
                          HasSubstr("  batch_size  memory grows linearly, 7.81 GiB per unit:")));
  EXPECT_THAT(text,
              AllOf(HasSubstr("What the memory is made of  #18  seq_len=4096, batch_size=2\n"),
                    HasSubstr("  14.52 GiB   83 %  activations\n"), ContainsRegex("attention +7.04 GiB +32.79 GiB"),
                    ContainsRegex("backward +17.46 GiB +-15.62 GiB +3.5 s +5\n")));
}

TEST(SweepPageTest, WhereNothingFits) {
  const std::string text = Text(AnswerOf(testing::GptRows(kMiB)));
  EXPECT_THAT(text, AllOf(HasSubstr("  no configuration fits\n"), Not(HasSubstr("largest that fits")),
                          HasSubstr("this one does not fit")));
  EXPECT_THAT(Text(AnswerOf({})), HasSubstr("  no configuration ran\n"));
}

TEST(SweepPageTest, ReasonsLossesFilesAndNotes) {
  SweepAnswer answer = AnswerOf(testing::PrivateRows());
  answer.rows[2].lost_events = 1700;
  answer.directory = "results";
  answer.files = {"memory_heatmap.png", "memory_timeline_config_1.png", "memory_timeline_config_2.png"};
  answer.notes = {"Something to know."};
  answer.simulated = false;
  EXPECT_THAT(Text(answer),
              AllOf(HasSubstr("), on a GPU\n"),
                    HasSubstr("  #8  exit code 1: ValueError: max_physical_batch_size must divide batch_size\n"),
                    HasSubstr("  lost  #3: 1,700 events\n"), HasSubstr("Files  results\n  memory_heatmap.png\n"),
                    HasSubstr("  memory_timeline_config_1.png ... memory_timeline_config_2.png (2)\n"),
                    HasSubstr("  note: Something to know.\n")));
}

TEST(SweepPageTest, NoLineIsWiderThanTheTerminalAndNoNameSteersIt) {
  SweepAnswer answer = AnswerOf(testing::PrivateRows());
  answer.rows[7].reason = "\x1b[31mred";
  answer.command.push_back("--token\x07");
  for (const SweepLanguage language : {SweepLanguage::kEnglish, SweepLanguage::kChinese}) {
    answer.language = language;
    const std::string text = Text(answer, 100);
    for (const absl::string_view line : absl::StrSplit(text, '\n')) EXPECT_LE(DisplayWidth(line), 100) << line;
    EXPECT_THAT(text, AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("\x07"))));
    // The verdicts of a sweep with four axes are not cut.
    EXPECT_THAT(text, HasSubstr(std::string(StateTitle(RowState::kFailed, language))));
  }
}

TEST(SweepPageTest, Chinese) {
  SweepAnswer answer = AnswerOf(testing::GptRows());
  answer.language = SweepLanguage::kChinese;
  const std::string text = Text(answer);
  EXPECT_THAT(text, AllOf(HasSubstr("模拟运行：未使用 GPU"), HasSubstr("20 个配置"), HasSubstr("显存不足"),
                          HasSubstr("放得下的最大配置: #18"), HasSubstr("显存随之呈二次增长"), HasSubstr("呈线性增长"),
                          HasSubstr("激活"), HasSubstr("注意力"), HasSubstr("前向传播"), HasSubstr("模型加载")));
  EXPECT_THAT(text, Not(HasSubstr("memory grows")));
}

TEST(WordsTest, EveryWordIsThereInBothLanguages) {
  for (int i = 0; i <= static_cast<int>(SweepWord::kAndMore); ++i) {
    EXPECT_FALSE(Word(static_cast<SweepWord>(i), SweepLanguage::kEnglish).empty()) << i;
    EXPECT_FALSE(Word(static_cast<SweepWord>(i), SweepLanguage::kChinese).empty()) << i;
  }
  EXPECT_EQ(MemoryTypeTitle("per_sample_gradient", SweepLanguage::kChinese), "逐样本梯度");
  EXPECT_EQ(MemoryTypeTitle("a_new_one", SweepLanguage::kChinese), "a new one");
  EXPECT_EQ(ComponentTitle("mlp", SweepLanguage::kEnglish), "MLP");
  EXPECT_EQ(StageTitleOf("privacy_setup", SweepLanguage::kChinese), "隐私引擎设置");
}

}  // namespace
}  // namespace gpumem::plan
