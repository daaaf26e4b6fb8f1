// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The file fails, the program goes on: what was written stays readable, the rest is counted.

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <random>

#include "shim/writer/session.h"
#include "writer_fixture.h"

namespace gpumemshim::writer {
namespace {

// Random content, so that it does not compress away.
void RecordSome(int count, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (int i = 0; i < count; i++) {
    Event e{};
    e.kind = EventKind::kAlloc;
    e.layer = Layer::kDriver;
    e.address = random();
    e.size = random();
    while (!ring::Record(e)) usleep(100);
  }
}

TEST_F(WriterTest, FullDiskIsCountedAndTheFileStaysWhole) {
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // A limit on the size of files stands in for a full disk. The ring's file must fit.
    signal(SIGXFSZ, SIG_IGN);
    rlimit limit = {300'000, 300'000};
    ring::Config ring_config;
    bool good = ring::Start(ring_config) && Start(MakeConfig());
    setrlimit(RLIMIT_FSIZE, &limit);
    for (uint64_t i = 0; i < 20; i++) {
      RecordSome(2000, i);
      FlushAndWait(5000);
    }
    Summary summary = Stop(5000);
    good = good && summary.opened && summary.error[0] != '\0' && summary.unwritten_events > 0 && summary.events > 0 &&
           summary.events + summary.unwritten_events == 40'000;
    _exit(good ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  Decoded d = DecodeFile(path());
  EXPECT_FALSE(d.truncated) << "half a packet was left behind";
  EXPECT_EQ(d.error, "") << "what could not be written uses up no number";
  EXPECT_GT(d.rows.size(), 0u);
  // The last words are small, so they found room.
  EXPECT_TRUE(d.has_end);
  EXPECT_EQ(d.end.events(), d.rows.size());
  EXPECT_EQ(d.losses.unwritten_events(), 40'000 - d.rows.size());
  EXPECT_NE(d.losses.write_error().find("File too large"), std::string::npos) << d.losses.write_error();
}

TEST_F(WriterTest, MissingFoldersAreMade) {
  path() = directory_ + "/missing/and/more/run.gmtrace";
  StartBoth();
  RecordSome(100, 1);
  const Summary summary = Stop(5000);
  EXPECT_TRUE(summary.complete);
  EXPECT_EQ(summary.path, path());
  EXPECT_STREQ(summary.error, "");
}

TEST_F(WriterTest, DirectoryThatCannotBeMade) {
  std::ofstream(directory_ + "/file") << "no folder";
  path() = directory_ + "/file/run.gmtrace";
  StartBoth();
  RecordSome(100, 1);
  Summary summary = Stop(5000);
  EXPECT_FALSE(summary.opened);
  EXPECT_EQ(summary.unwritten_events, 100u);
  EXPECT_EQ(summary.events, 0u);
  EXPECT_NE(std::string(summary.error).find("Not a directory"), std::string::npos) << summary.error;
}

bool FallbackOfTest(uint32_t attempt, char* out, size_t capacity) {
  return attempt == 0 && snprintf(out, capacity, "%s", "/tmp/gpumemshim_writer_test_fallback.gmtrace") > 0;
}

TEST_F(WriterTest, AnotherPlaceIsBetterThanNone) {
  path() = "/proc/missing/run.gmtrace";
  Config config = MakeConfig();
  config.callbacks.paths.fallback = &FallbackOfTest;
  StartBoth(config);
  RecordSome(100, 1);
  Summary summary = Stop(5000);
  EXPECT_TRUE(summary.complete);
  EXPECT_EQ(summary.unwritten_events, 0u);
  EXPECT_NE(std::string(summary.error).find("missing/run.gmtrace: No such file"), std::string::npos) << summary.error;
  Decoded d = DecodeFile(summary.path);
  EXPECT_EQ(d.rows.size(), 100u);
  EXPECT_EQ(d.losses.write_error(), "") << "nothing is missing";
  std::filesystem::remove(summary.path);
}

int DescriptorOf(const std::string& path) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    if (std::filesystem::read_symlink(entry.path(), error) == path) return std::stoi(entry.path().filename());
  }
  return -1;
}

TEST_F(WriterTest, ADescriptorThatTheProgramClosedIsOpenedAgain) {
  StartBoth();
  RecordSome(100, 1);
  ASSERT_TRUE(FlushAndWait(5000));
  const int descriptor = DescriptorOf(path());
  ASSERT_GT(descriptor, 2);
  // Its number now stands for a file of the program, which must stay as it is.
  const std::string other = directory_ + "/other";
  const int file = open(other.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(dup3(file, descriptor, O_CLOEXEC), descriptor);
  RecordSome(100, 2);
  ASSERT_TRUE(FlushAndWait(5000));
  RecordSome(100, 3);
  Summary summary = Stop(5000);
  EXPECT_TRUE(summary.complete) << summary.error;
  EXPECT_EQ(std::filesystem::file_size(other), 0u);
  EXPECT_EQ(write(descriptor, "x", 1), 1) << "and must stay open";
  EXPECT_EQ(DecodeFile(path()).rows.size(), 300u);
  close(file);
  close(descriptor);
}

TEST_F(WriterTest, NoDescriptorLeftForAWhile) {
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  StartBoth();
  const rlimit none = {0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  RecordSome(100, 1);
  ASSERT_TRUE(FlushAndWait(5000));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  Summary summary = Stop(5000);
  EXPECT_TRUE(summary.complete);
  EXPECT_EQ(summary.unwritten_events, 100u);
  EXPECT_NE(std::string(summary.error).find("Too many open files"), std::string::npos) << summary.error;
  EXPECT_EQ(DecodeFile(path()).losses.unwritten_events(), 100u);
}

TEST_F(WriterTest, ADeletedFileIsGivenUp) {
  StartBoth();
  RecordSome(100, 1);
  ASSERT_TRUE(FlushAndWait(5000));
  std::filesystem::remove(path());
  RecordSome(100, 2);
  ASSERT_TRUE(FlushAndWait(5000));
  EXPECT_EQ(DescriptorOf(path() + " (deleted)"), -1) << "its disk space is given back";
  Summary summary = Stop(5000);
  EXPECT_FALSE(summary.opened);
  EXPECT_EQ(summary.events, 0u);
  EXPECT_EQ(summary.unwritten_events, 200u);
  EXPECT_NE(std::string(summary.error).find("deleted while the program ran"), std::string::npos) << summary.error;
}

TEST_F(WriterTest, ATruncatedFileIsGivenUp) {
  StartBoth();
  RecordSome(100, 1);
  ASSERT_TRUE(FlushAndWait(5000));
  std::filesystem::resize_file(path(), 10);
  RecordSome(100, 2);
  Summary summary = Stop(5000);
  EXPECT_EQ(std::filesystem::file_size(path()), 10u);
  EXPECT_NE(std::string(summary.error).find("truncated"), std::string::npos) << summary.error;
}

TEST_F(WriterTest, WritingResumesWithAllDefinitions) {
  StartBoth();
  RecordSome(100, 1);
  ASSERT_TRUE(FlushAndWait(5000));
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit full = {std::filesystem::file_size(path()) + 1, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  const ring::RawFrame frames[] = {{0x1000, 0, 0}, {0x2000, 0, 0}};
  ASSERT_TRUE(ring::RecordStack(77, frames, 2));
  RecordSome(100, 2);
  ASSERT_TRUE(FlushAndWait(5000));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  usleep(1'100'000);  // it is tried again once a second
  Event e{};
  e.kind = EventKind::kAlloc;
  e.layer = Layer::kDriver;
  e.address = 42;
  e.stack = 77;
  ASSERT_TRUE(ring::Record(e));
  Summary summary = Stop(5000);
  EXPECT_TRUE(summary.complete);
  Decoded d = DecodeFile(path());
  ASSERT_EQ(d.rows.size(), 101u);
  EXPECT_NE(d.rows.back().stack, 0u) << "defined while nothing could be written";
  EXPECT_EQ(d.losses.unwritten_events(), 100u);
}

TEST_F(WriterTest, ForkedChildWritesItsOwnTrace) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer allows no new thread after a fork with threads";
#endif
  StartBoth();
  RecordSome(100, 1);
  ASSERT_TRUE(FlushAndWait(5000));
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ring::ForgetInChild();
    ForgetInChild();
    Event e{};
    e.kind = EventKind::kAlloc;
    bool good = !ring::Record(e) && !FlushAndWait(1);
    good = good && ring::Start(ring::Config()) && Start(MakeConfig());
    RecordSome(7, 2);
    Summary summary = Stop(5000);
    _exit(good && summary.complete && summary.events == 7 ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  RecordSome(100, 3);
  Summary summary = Stop(5000);
  EXPECT_EQ(summary.events, 200u);
  Decoded parent = DecodeFile(path()), own = DecodeFile(directory_ + "/run.1.gmtrace");
  EXPECT_EQ(parent.error, "");
  EXPECT_EQ(parent.rows.size(), 200u);
  EXPECT_EQ(own.error, "");
  EXPECT_EQ(own.rows.size(), 7u);
  EXPECT_EQ(own.header.pid(), static_cast<uint32_t>(child));
}

// Of what is lost PyTorch's own totals tell: they are not waited for until a second has passed.
TEST_F(WriterTest, TotalsComeWithEachLoss) {
  ring::Config small;
  small.size_bytes = ring::kMinSizeBytes;
  ASSERT_TRUE(ring::Start(small));
  Session session(MakeConfig());
  ASSERT_TRUE(session.Init());
  Event e{};
  e.layer = Layer::kTorch;
  e.kind = EventKind::kAlloc;
  uint64_t before = 0;
  for (int round = 0; round < 3; round++) {
    while (ring::Record(e)) e.torch_allocated++;  // until one is dropped
    session.Pass(false);
    const Decoded d = DecodeFile(path());
    ASSERT_EQ(d.counters.devices_size(), 1);
    EXPECT_GT(d.counters.devices(0).torch_allocated_bytes(), before) << round;
    before = e.torch_allocated;
  }
}

}  // namespace
}  // namespace gpumemshim::writer
