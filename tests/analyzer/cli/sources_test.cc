// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

// A trace names source files of whoever reads it. Only the user's own trace, or --sources, opens them; what is shown of
// them is masked.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utime.h>

#include <filesystem>

#include "ledger/load/own_trace.h"
#include "program.h"
#include "testing/pickle_builder.h"
#include "testing/sizes.h"
#include "testing/training_trace.h"

namespace gpumem {
namespace {

namespace fs = std::filesystem;
using testing::Code;
using ::testing::HasSubstr;
using testing::kMiB;
using testing::kSegment;
using ::testing::Not;
using testing::Outcome;
using testing::RunGpumem;
using testing::TrainingTrace;

constexpr char kSource[] =
    "import torch\n"
    "def remember(n):\n"
    "    out = torch.zeros(n)\n"
    "    shelf[n] = store(out, password=\"correct-horse\")\n";
constexpr char kKept[] = "shelf[n] = store(out, password=\\\"***\\\")";  // as JSON and pages have it

// Each step keeps what line 3 of `file` allocates.
std::string LeakingTrace(const std::string& file, const std::string& boot_id, const std::string& folder = "/job") {
  TrainingTrace training;
  testing::TraceBuilder& trace = training.builder();
  trace.header().set_boot_id(boot_id);
  trace.header().set_working_directory(folder);
  const uint32_t optimizer = training.Optimizer("SGD");
  const uint64_t stack = training.Stack({Code("remember", file, 3), Code("<module>", file, 9)});
  trace.Device(0, "GPU", uint64_t{80} << 30).CudaAlloc(kSegment, 512 * kMiB, stack);
  for (uint64_t step = 0; step < 40; ++step) {
    trace.TorchAlloc(kSegment + step * kMiB, kMiB, stack);
    training.StepBegins(optimizer).StepEnds(optimizer);
  }
  return trace.End().Bytes();
}

// Counts how often files of a folder are opened.
class OpenWatch {
 public:
  explicit OpenWatch(const std::string& folder) : events_(inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
    EXPECT_GE(inotify_add_watch(events_, folder.c_str(), IN_OPEN), 0);
  }
  ~OpenWatch() { close(events_); }
  bool WasOpened() const {
    char buffer[4096];
    return read(events_, buffer, sizeof buffer) > 0;
  }

 private:
  int events_;
};

class SourcesTest : public ::testing::Test {
 protected:
  SourcesTest() : folder_(testing::MakeFolder()), private_(folder_ + "/private"), file_(private_ + "/settings.py") {
    fs::create_directories(private_);
    AddSource(file_);
  }

  // Older than any run.
  static void AddSource(const std::string& path) {
    testing::WriteFile(path, kSource);
    const utimbuf long_ago{1'000'000'000, 1'000'000'000};
    EXPECT_EQ(utime(path.c_str(), &long_ago), 0);
  }
  std::string Write(const std::string& bytes, mode_t mode = 0600) const {
    const std::string path = folder_ + "/run.gmtrace";
    testing::WriteFile(path, bytes);
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
    return path;
  }
  // What every command that could show lines prints and writes.
  std::string AllAnswers(const std::string& trace, const std::vector<std::string>& more = {}) const {
    std::string all;
    for (std::vector<std::string> command : std::vector<std::vector<std::string>>{{"leaks", "--json"},
                                                                                  {"leaks"},
                                                                                  {"report", "--full"},
                                                                                  {"report", "--json"},
                                                                                  {"oom", "--no-replay"},
                                                                                  {"explain", "--no-replay"},
                                                                                  {"html", "-o", "-"}}) {
      command.insert(command.end(), more.begin(), more.end());
      command.push_back(trace);
      const Outcome outcome = RunGpumem(command, folder_);
      EXPECT_EQ(outcome.exit_code, 0) << command[0] << outcome.err;
      all += outcome.out + outcome.err;
    }
    return all;
  }
  std::string Leaks(const std::string& trace, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> command = {"leaks", "--json", trace};
    command.insert(command.end(), more.begin(), more.end());
    const Outcome outcome = RunGpumem(command, folder_);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.out;
  }

  const std::string folder_, private_, file_;
};

TEST_F(SourcesTest, OfOnesOwnTraceAreReadAndMasked) {
  const std::string trace = Write(LeakingTrace(file_, BootId()));
  const OpenWatch watch(private_);
  EXPECT_THAT(Leaks(trace), HasSubstr(kKept));
  EXPECT_TRUE(watch.WasOpened());
  const std::string all = AllAnswers(trace);
  EXPECT_THAT(all, HasSubstr("(by its source, not seen)"));
  EXPECT_THAT(all, Not(HasSubstr("correct-horse")));
}

TEST_F(SourcesTest, OfAnyOtherTraceAreNotOpened) {
  struct Case {
    std::string boot_id;
    mode_t mode;
  };
  for (const Case& each : {Case{"", 0600}, Case{std::string(16, '\0'), 0600}, Case{BootId().substr(0, 8), 0600},
                           Case{BootId(), 0620}, Case{BootId(), 0602}}) {
    const std::string trace = Write(LeakingTrace(file_, each.boot_id), each.mode);
    const OpenWatch watch(private_);
    const std::string all = AllAnswers(trace);
    EXPECT_THAT(all, Not(HasSubstr("shelf[n]")));
    EXPECT_THAT(all, Not(HasSubstr("correct-horse")));
    EXPECT_THAT(all, HasSubstr("--sources DIR")) << "no way out is shown";
    for (const char* command : {"flame", "tree", "table", "peak", "steps", "modules", "at"}) {
      RunGpumem(command == std::string("at") ? std::vector<std::string>{"at", "peak", trace}
                                             : std::vector<std::string>{command, trace},
                folder_);
    }
    EXPECT_FALSE(watch.WasOpened());
  }
}

TEST_F(SourcesTest, OfAnotherUsersTraceAreNotOpened) {
  if (geteuid() != 0) GTEST_SKIP() << "skipped: only root can give a file to somebody else";
  const std::string trace = Write(LeakingTrace(file_, BootId()));
  ASSERT_EQ(chown(trace.c_str(), 12345, 12345), 0);
  const OpenWatch watch(private_);
  EXPECT_THAT(AllAnswers(trace), Not(HasSubstr("shelf[n]")));
  EXPECT_FALSE(watch.WasOpened());
}

TEST_F(SourcesTest, ChangedOnesAreNotTheOnesThatRan) {
  const std::string trace = Write(LeakingTrace(file_, BootId()));
  testing::WriteFile(file_, kSource);
  EXPECT_THAT(Leaks(trace), Not(HasSubstr("shelf[n]")));
}

TEST_F(SourcesTest, AFolderThatTheUserNamesIsReadAndNothingOutsideOfIt) {
  const std::string mine = folder_ + "/mine";
  fs::create_directories(mine + "/job");
  AddSource(mine + "/job/settings.py");
  const std::string foreign = Write(LeakingTrace("/srv/team/job/settings.py", ""));
  EXPECT_THAT(Leaks(foreign), Not(HasSubstr("shelf[n]")));
  EXPECT_THAT(Leaks(foreign, {"--sources", mine}), HasSubstr(kKept));
  EXPECT_THAT(Leaks(foreign, {"--sources", mine + "/job"}), HasSubstr(kKept));
  EXPECT_THAT(AllAnswers(foreign, {"--sources", mine}), Not(HasSubstr("correct-horse")));

  fs::create_symlink(file_, mine + "/link.py");
  fs::create_directory_symlink(private_, mine + "/folder");
  ASSERT_EQ(mkfifo((mine + "/pipe.py").c_str(), 0600), 0);
  for (const std::string& named :
       {file_, mine + "/../private/settings.py", std::string("../private/settings.py"), std::string("/x/link.py"),
        std::string("/x/folder/settings.py"), std::string("/x/pipe.py"), std::string("/job"), std::string("/")}) {
    const std::string trace = Write(LeakingTrace(named, ""));
    const OpenWatch watch(private_);
    EXPECT_THAT(Leaks(trace, {"--sources", mine}), Not(HasSubstr("shelf[n]"))) << named;
    EXPECT_FALSE(watch.WasOpened()) << named;
  }
  EXPECT_EQ(RunGpumem({"leaks", "--sources", folder_ + "/none", foreign}, folder_).exit_code, 2);
}

// PyTorch's snapshots are anybody's: the trace that is made of one names no machine.
TEST_F(SourcesTest, OfAnImportAreNotOpened) {
  const std::vector<pickled::Value> kept = {pickled::Frame(file_, "remember", 3)};
  const std::vector<pickled::Value> batch = {pickled::Frame("/job/train.py", "main", 7)};
  std::vector<pickled::Value> history;
  for (uint64_t i = 0; i < 40; ++i) {
    const uint64_t time_us = 2'000'000'000'000'000 + i * 1000;
    history.push_back(pickled::Entry("alloc", kSegment, kMiB, time_us, batch));
    history.push_back(pickled::Entry("alloc", kSegment + (i + 1) * kMiB, kMiB, time_us + 10, kept));
    history.push_back(pickled::Entry("free_requested", kSegment, kMiB, time_us + 20, batch));
    history.push_back(pickled::Entry("free_completed", kSegment, kMiB, time_us + 20, batch));
  }
  const std::string pickle = folder_ + "/snapshot.pickle";
  testing::WriteFile(pickle, pickled::Snapshot({}, history));
  const OpenWatch watch(private_);
  const std::string found = Leaks(pickle);
  EXPECT_THAT(found, HasSubstr("settings.py"));
  EXPECT_THAT(found, Not(HasSubstr("shelf[n]")));
  EXPECT_FALSE(watch.WasOpened());
  EXPECT_THAT(Leaks(pickle, {"--sources", private_}), HasSubstr("shelf[n]"));
}

}  // namespace
}  // namespace gpumem
