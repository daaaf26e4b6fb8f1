// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

// What is not a trace, or stops being one while it is read: an answer or an error that names the file, never a hang, a
// crash, or gigabytes.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "absl/strings/str_cat.h"
#include "answers/ranks/summary_file.h"
#include "program.h"
#include "testing/trace_builder.h"

namespace gpumem {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Outcome;
using testing::RunGpumem;

// A stop, no measure.
constexpr testing::Limits kReaderLimits{20, uint64_t{1} << 30};

const std::vector<std::vector<std::string>> kCommands = {{"report"},
                                                         {"report", "--json"},
                                                         {"peak"},
                                                         {"leaks"},
                                                         {"timeline"},
                                                         {"fragmentation"},
                                                         {"oom"},
                                                         {"info"},
                                                         {"export", "packets"},
                                                         {"tree"},
                                                         {"table"},
                                                         {"sizes"},
                                                         {"export", "collapsed"},
                                                         {"flame", "-o", "-"},
                                                         {"html", "-o", "-"},
                                                         {"steps"},
                                                         {"stages"},
                                                         {"modules"},
                                                         {"model"},
                                                         {"at", "1ms"},
                                                         {"export", "trace", "--names", "-o", "out"},
                                                         {"bundle", "-o", "out.zip"},
                                                         {"export", "trace"},
                                                         {"explain"},
                                                         {"forecast"},
                                                         {"live", "--once"},
                                                         {"ranks"}};

std::string SomeTrace(uint64_t events) {
  testing::TraceBuilder trace(100);
  trace.Device(0, "GPU", 1 << 30);
  const uint64_t stack = trace.PythonStack({{"f", "m.py", 7}});
  for (uint64_t i = 0; i < events; ++i) trace.TorchAlloc((i + 1) << 20, 512, stack);
  return trace.End().Bytes();
}

class WrongInputsTest : public ::testing::Test {
 protected:
  void SetUp() override { folder_ = testing::MakeFolder(); }

  Outcome Run(std::vector<std::string> arguments, const std::string& input) {
    arguments.push_back(input);
    return RunGpumem(arguments, folder_, {}, kReaderLimits);
  }
  void ExpectRefused(const std::string& input, const std::string& named) {
    for (const std::vector<std::string>& command : kCommands) {
      const Outcome outcome = Run(command, input);
      EXPECT_EQ(outcome.exit_code, 3) << command[0] << " " << input << outcome.err;
      EXPECT_THAT(outcome.err, HasSubstr(named)) << command[0];
      EXPECT_THAT(outcome.out, IsEmpty()) << command[0];
    }
  }
  std::string folder_;
};

TEST_F(WrongInputsTest, APipeThatNobodyWritesTo) {
  ASSERT_EQ(mkfifo((folder_ + "/pipe.gmtrace").c_str(), 0600), 0);
  ExpectRefused("pipe.gmtrace", "pipe.gmtrace is not a regular file");
}

TEST_F(WrongInputsTest, Devices) {
  ExpectRefused("/dev/zero", "/dev/zero is not a regular file");
  ExpectRefused("/dev/full", "/dev/full is not a regular file");
}

TEST_F(WrongInputsTest, LinksThatLeadNowhereOrInACircle) {
  fs::create_symlink("missing", folder_ + "/nowhere.gmtrace");
  fs::create_symlink("circle.gmtrace", folder_ + "/circle.gmtrace");
  ExpectRefused("nowhere.gmtrace", "nowhere.gmtrace");
  ExpectRefused("circle.gmtrace", "circle.gmtrace");
}

TEST_F(WrongInputsTest, AFileOfHolesAlone) {
  testing::WriteFile(folder_ + "/holes.gmtrace", "");
  fs::resize_file(folder_ + "/holes.gmtrace", uint64_t{1} << 40);
  ExpectRefused("holes.gmtrace", "holes.gmtrace");
}

TEST_F(WrongInputsTest, AFolderWithoutTraces) {
  fs::create_directory(folder_ + "/none");
  ExpectRefused("none", "none");
}

TEST_F(WrongInputsTest, AFolderOfThousandsWithForeignOnes) {
  const std::string trace = SomeTrace(3);
  fs::create_directory(folder_ + "/many");
  for (int i = 0; i < 10'000; ++i)
    testing::WriteFile(absl::StrCat(folder_, "/many/", i, ".gmtrace"), i % 2 ? trace : "x");
  testing::WriteFile(folder_ + "/many/new\nest.gmtrace", trace);
  fs::last_write_time(folder_ + "/many/new\nest.gmtrace", fs::file_time_type::clock::now() + std::chrono::hours(1));
  for (const std::vector<std::string>& command : {kCommands[0], kCommands[1], kCommands[2], kCommands[7]}) {
    const Outcome outcome = Run(command, "many");
    EXPECT_THAT(outcome.exit_code, AnyOf(0, 4)) << command[0] << outcome.err;
  }
}

TEST_F(WrongInputsTest, ASummaryWithAListWhereANumberBelongsIsLeftOutAndNamed) {
  for (int number = 0; number < 3; ++number) {
    RankSummary rank;
    rank.file = absl::StrCat("r", number);
    rank.rank = number;
    rank.job = {"1", "train", 3};
    rank.device = 0;
    rank.peak_allocated = uint64_t{100} << 20;
    rank.ancestors = {7};
    std::string line = SummaryLine(rank, {});
    if (number == 1) line.replace(line.find("[[7]]"), 5, "[[\"x\"]]");
    testing::WriteFile(absl::StrCat(folder_, "/r", number, ".gmtrace.summary"), line);
  }
  const Outcome outcome = Run({"ranks"}, ".");
  EXPECT_EQ(outcome.exit_code, 4) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("r1.gmtrace.summary, line 1, is left out: no summary of a rank that this version "
                                     "knows: ancestors[0][0] is not a whole number"));
  EXPECT_THAT(outcome.out, HasSubstr("2 of 3 ranks"));
}

TEST_F(WrongInputsTest, ATraceThatIsCutShortWhileItIsRead) {
  const std::string whole = SomeTrace(20'000), path = folder_ + "/run.gmtrace";
  testing::WriteFile(path, whole);
  std::atomic<bool> is_done{false};
  std::thread cutter([&] {
    while (!is_done.load()) {
      fs::resize_file(path, whole.size() / 3);
      std::this_thread::yield();
      fs::resize_file(path, whole.size());
      const int descriptor = open(path.c_str(), O_WRONLY | O_CLOEXEC);
      const ssize_t ignored = pwrite(descriptor, whole.data(), whole.size(), 0);
      EXPECT_EQ(ignored, static_cast<ssize_t>(whole.size()));
      close(descriptor);
    }
  });
  for (const std::vector<std::string>& command : kCommands) {
    const Outcome outcome = Run(command, "run.gmtrace");
    const bool found_no_oom = command[0] == "oom" && outcome.exit_code == 1;
    EXPECT_TRUE(found_no_oom || outcome.exit_code == 0 || outcome.exit_code == 3 || outcome.exit_code == 4)
        << command[0] << outcome.exit_code << outcome.err;
    fs::remove(folder_ + "/out");
  }
  is_done.store(true);
  cutter.join();
}

}  // namespace
}  // namespace gpumem
