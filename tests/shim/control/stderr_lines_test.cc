// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/control/stderr_lines.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

namespace gpumemshim::control {
namespace {

// Runs `child` in a process of its own, where `stderr_fd` is its stderr. Returns its wait status.
template <typename Child>
int StatusOf(int stderr_fd, Child child) {
  const pid_t pid = fork();
  if (pid == 0) {
    if (stderr_fd >= 0) dup2(stderr_fd, STDERR_FILENO);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    child();
    _exit(7);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return status;
}

constexpr int kExited7 = 7 << 8;

TEST(StderrLineTest, WritesToAPipe) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_EQ(StatusOf(ends[1], [] { WriteLine("a line\n", 7); }), kExited7);
  char text[16] = {};
  EXPECT_EQ(read(ends[0], text, sizeof text), 7);
  EXPECT_STREQ(text, "a line\n");
}

TEST(StderrLineTest, AReaderThatHasGoneEndsNothing) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  EXPECT_EQ(StatusOf(ends[1],
                     [] {
                       WriteLine("a line\n", 7);
                       sigset_t pending;
                       if (sigpending(&pending) != 0 || sigismember(&pending, SIGPIPE) != 0) _exit(1);
                     }),
            kExited7);
}

TEST(StderrLineTest, AFullPipeHoldsNothingUp) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_NONBLOCK), 0);
  while (write(ends[1], "xxxxxxxx", 8) > 0) {
  }
  ASSERT_EQ(fcntl(ends[1], F_SETFL, 0), 0);
  EXPECT_EQ(StatusOf(ends[1], [] { WriteLine("a line\n", 7); }), kExited7);
}

TEST(StderrLineTest, ALimitOnFilesEndsNothing) {
  char path[] = "/tmp/gpumemshim_stderr.XXXXXX";
  const int made = mkstemp(path);
  const int file = open(path, O_WRONLY);
  unlink(path);
  EXPECT_EQ(StatusOf(file,
                     [] {
                       const rlimit limit = {0, 0};
                       setrlimit(RLIMIT_FSIZE, &limit);
                       WriteLine("a line\n", 7);
                     }),
            kExited7);
  close(file);
  close(made);
}

TEST(StderrLineTest, AFileOfTheProgramUnderThatNumberStaysAsItIs) {
  char path[] = "/tmp/gpumemshim_stderr.XXXXXX";
  const int made = mkstemp(path);
  const std::string name = path;
  EXPECT_EQ(StatusOf(-1,
                     [&] {
                       close(STDERR_FILENO);
                       if (open(name.c_str(), O_RDWR | O_CLOEXEC) != STDERR_FILENO) _exit(1);
                       WriteLine("a line\n", 7);
                     }),
            kExited7);
  struct stat status;
  ASSERT_EQ(fstat(made, &status), 0);
  EXPECT_EQ(status.st_size, 0);
  unlink(path);
  close(made);
}

writer::Summary GoodSummary() {
  writer::Summary summary{};
  summary.opened = summary.complete = true;
  std::strcpy(summary.path, "/run/here/gpumemshim.train.123.gmtrace");
  summary.file_bytes = 62464;
  summary.events = 17904;
  summary.torch_events = 17800;
  summary.runtime_events = 96;
  summary.driver_events = 8;
  return summary;
}

std::string SummaryText(const writer::Summary& summary, const char* directory, uint64_t failed_callbacks = 0) {
  char out[8192];
  const size_t size = SummaryLine(summary, {failed_callbacks, directory, ""}, out, sizeof out);
  return {out, size};
}

TEST(SummaryLine, OfAFileThatDidNotTakeTheEnd) {
  writer::Summary summary{};
  summary.timed_out = true;
  summary.events = 12345;
  std::strcpy(summary.path, "/nfs/run.gmtrace");
  EXPECT_EQ(SummaryText(summary, "/nfs"),
            "gpumemshim: the trace's file system did not take its end within 2 s: 12,345 events are in "
            "/nfs/run.gmtrace, later "
            "ones, as far as there was room, in its ring on this host. Next: gpumemshim report /nfs/run.gmtrace\n");
}

TEST(SummaryLine, OfARankThatKeepsASummaryAlone) {
  char out[512];
  const size_t size =
      SummaryLine(GoodSummary(), {0, "/runs", "/runs/gpumemshim.train.123.r4.gmtrace.summary"}, out, sizeof out);
  EXPECT_EQ(
      std::string(out, size),
      "gpumemshim: 17,904 events (17,800 torch, 96 runtime, 8 driver), 0 lost; only their summary is kept, in "
      "./gpumemshim.train.123.r4.gmtrace.summary. Next: gpumemshim ranks gpumemshim.train.123.r4.gmtrace.summary\n");
}

TEST(SummaryLine, FileInTheWorkingDirectory) {
  EXPECT_EQ(SummaryText(GoodSummary(), "/run/here"),
            "gpumemshim: 17,904 events (17,800 torch, 96 runtime, 8 driver), 0 lost, in ./gpumemshim.train.123.gmtrace "
            "(61 KiB). "
            "Next: gpumemshim report gpumemshim.train.123.gmtrace\n");
}

TEST(SummaryLine, ASeriesIsReadByTheNameThatWasGiven) {
  writer::Summary summary = GoodSummary();
  const auto next = [&](const char* path) {
    std::strcpy(summary.path, path);
    const std::string text = SummaryText(summary, "/run/here");
    return text.substr(text.find("Next: "));
  };
  EXPECT_EQ(next("/run/here/s.part19.gmtrace"), "Next: gpumemshim report s.gmtrace\n");
  EXPECT_EQ(next("/run/here/my run.part2.gmtrace"), "Next: gpumemshim report 'my run.gmtrace'\n");
  EXPECT_EQ(next("/run/here/s.part.gmtrace"), "Next: gpumemshim report s.part.gmtrace\n");
  EXPECT_EQ(next("/run/here/s.part2.1.gmtrace"), "Next: gpumemshim report s.part2.1.gmtrace\n");
}

TEST(SummaryLine, SaysThatCallbacksFailed) {
  EXPECT_NE(SummaryText(GoodSummary(), "/run/here", 1).find("0 lost, 1 forecast callback failed, in ./"),
            std::string::npos);
  EXPECT_NE(SummaryText(GoodSummary(), "/run/here", 1200).find(", 1,200 forecast callbacks failed, in"),
            std::string::npos);
}

// The line shows them as "?", and the command is one that bash and zsh can run.
TEST(SummaryLine, ControlCharactersInThePath) {
  writer::Summary summary = GoodSummary();
  std::strcpy(summary.path,
              "/run/here/a\x1b]0;b\a'\xff"
              "c\n.gmtrace");
  const std::string line = SummaryText(summary, "/run/here");
  EXPECT_NE(line.find(" in ./a?]0;b?'?c?.gmtrace ("), std::string::npos) << line;
  EXPECT_NE(line.find("Next: gpumemshim report $'a\\x1b]0;b\\x07\\'\\xff'$'c\\x0a.gmtrace'\n"), std::string::npos)
      << line;
  EXPECT_EQ(line.find('\x1b'), std::string::npos);
}

TEST(SummaryLine, ControlCharactersInTheError) {
  writer::Summary summary{};
  summary.unwritten_events = 3;
  std::strcpy(summary.error, "/run/\r\x1b[2K: No space left on device");
  EXPECT_EQ(SummaryText(summary, "/run"),
            "gpumemshim: no trace written, 3 events lost: /run/??[2K: No space left on device\n");
}

TEST(SummaryLine, EndsWithANewlineWhateverThePath) {
  writer::Summary summary = GoodSummary();
  std::memset(summary.path, '\x1b', sizeof summary.path - 1);
  EXPECT_EQ(SummaryText(summary, "/run").back(), '\n');
}

TEST(SummaryLine, FileElsewhereAndLosses) {
  writer::Summary summary = GoodSummary();
  summary.events = 1;
  summary.complete = false;
  summary.dropped_allocs = 1000;
  summary.unwritten_events = 2;
  std::strcpy(summary.error, "No space left on device");
  const std::string line = SummaryText(summary, "/run/her");
  EXPECT_NE(line.find("gpumemshim: 1 event ("), std::string::npos) << line;
  EXPECT_NE(line.find("1,002 lost (No space left on device), end missing, in /run/here/gpumemshim"), std::string::npos)
      << line;
  EXPECT_NE(line.find("gpumemshim report /run/here/gpumemshim.train.123.gmtrace"), std::string::npos) << line;
}

TEST(SummaryLine, QuotesWhatAShellWouldSplit) {
  writer::Summary summary = GoodSummary();
  std::strcpy(summary.path, "/run/my runs/t.gmtrace");
  EXPECT_NE(SummaryText(summary, "/x").find("gpumemshim report '/run/my runs/t.gmtrace'\n"), std::string::npos);
}

TEST(SummaryLine, NothingRecordedSaysNothing) { EXPECT_EQ(SummaryText(writer::Summary{}, "/x"), ""); }

TEST(SummaryLine, NoFileSaysWhy) {
  writer::Summary summary{};
  summary.unwritten_events = 12;
  std::strcpy(summary.error, "Permission denied");
  EXPECT_EQ(SummaryText(summary, "/x"), "gpumemshim: no trace written, 12 events lost: Permission denied\n");
}

constexpr uint64_t kGiB = uint64_t{1} << 30;

std::string WarningText(const sampler::Crossing& crossing) {
  char line[256];
  return std::string(line, WarningLine(crossing, line, sizeof line));
}

TEST(WarningLineTest, SaysWhoUsesHowMuch) {
  EXPECT_EQ(WarningText({1, 90, 0, 73 * kGiB, 80 * kGiB, 61 * kGiB}),
            "gpumemshim: GPU 1 is 91 % full (73 GiB of 80 GiB, 61 GiB by this process): reached 90 %\n");
  EXPECT_EQ(WarningText({0, 0, 70 * kGiB, 73 * kGiB, 0, sampler::kUnknown}),
            "gpumemshim: GPU 0 is filling up (73 GiB): reached 70 GiB\n");
}

TEST(WarningLineTest, WhatDoesNotFitIsCut) {
  char line[16];
  EXPECT_EQ(WarningLine({1, 90, 0, kGiB, kGiB, kGiB}, line, sizeof line), sizeof line - 1);
}

}  // namespace

}  // namespace gpumemshim::control
