// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "base/console.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace gpumem {
namespace {

class DetectStyleTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"NO_COLOR", "COLUMNS", "LC_ALL", "LC_CTYPE", "LANG"}) unsetenv(name);
    setenv("TERM", "xterm", 1);
    terminal_ = posix_openpt(O_RDWR | O_NOCTTY);
    ASSERT_GE(terminal_, 0);
    const winsize size{24, 133, 0, 0};
    ASSERT_EQ(ioctl(terminal_, TIOCSWINSZ, &size), 0);
    pipe_ = open("/dev/null", O_RDWR);
  }
  void TearDown() override {
    close(terminal_);
    close(pipe_);
  }
  int terminal_ = -1, pipe_ = -1;
};

TEST_F(DetectStyleTest, TerminalHasColorAndItsOwnWidth) {
  setenv("COLUMNS", "50", 1);
  const TextStyle style = DetectStyle(terminal_);
  EXPECT_TRUE(style.terminal);
  EXPECT_TRUE(style.color);
  EXPECT_EQ(style.width, 133);
}

TEST_F(DetectStyleTest, NoColorAndDumbTerminalsAreRespected) {
  setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(DetectStyle(terminal_).color);
  unsetenv("NO_COLOR");
  setenv("TERM", "dumb", 1);
  EXPECT_FALSE(DetectStyle(terminal_).color);
}

TEST_F(DetectStyleTest, ElsewhereNoColorAndWidthByEnvironment) {
  EXPECT_FALSE(DetectStyle(pipe_).color);
  EXPECT_EQ(DetectStyle(pipe_).width, 100);
  setenv("COLUMNS", "64", 1);
  EXPECT_EQ(DetectStyle(pipe_).width, 64);
  setenv("COLUMNS", "3", 1);
  EXPECT_EQ(DetectStyle(pipe_).width, 40);
  setenv("COLUMNS", "rubbish", 1);
  EXPECT_EQ(DetectStyle(pipe_).width, 100);
}

TEST_F(DetectStyleTest, LocaleDecidesOnUtf8) {
  EXPECT_FALSE(DetectStyle(pipe_).utf8);
  setenv("LANG", "de_DE.UTF-8", 1);
  EXPECT_TRUE(DetectStyle(pipe_).utf8);
  setenv("LC_ALL", "C", 1);
  EXPECT_FALSE(DetectStyle(pipe_).utf8);
  setenv("LC_ALL", "C.utf8", 1);
  EXPECT_TRUE(DetectStyle(pipe_).utf8);
}

TEST(Paint, AddsNothingWithoutColor) {
  TextStyle style;
  EXPECT_EQ(Paint(style, Tone::kAlarm, "x"), "x");
  style.color = true;
  EXPECT_EQ(Paint(style, Tone::kHeading, "x"), "\033[1mx\033[0m");
  EXPECT_EQ(Paint(style, Tone::kPlain, "x"), "x");
}

TEST(ForTerminalTest, LeavesWhatIsOurs) {
  const TextStyle style{true, true, true, 80};
  const std::string text = Paint(style, Tone::kAlarm, "OUT OF MEMORY") + "\t12 GiB \u2026 模型.py\n";
  EXPECT_EQ(ForTerminal(text), text);
}

TEST(ForTerminalTest, MakesTheRestVisibleAsJsonDoes) {
  EXPECT_EQ(ForTerminal("a\x1b[2Jb\r\x7f"), "a\\u001b[2Jb\\u000d\\u007f");
  EXPECT_EQ(ForTerminal("\u009b31m \u202egnp.exe \U000e0041"), "\\u009b31m \\u202egnp.exe \\udb40\\udc41");
  EXPECT_EQ(ForTerminal("\xff|\xc3"), "\\ufffd|\\ufffd");
  EXPECT_EQ(ForTerminal(absl::string_view("\0", 1)), "\\u0000");
}

}  // namespace
}  // namespace gpumem
