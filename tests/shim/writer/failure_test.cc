// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The file fails, the program goes on: what was written stays readable, the rest is counted.

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>

#include "writer_fixture.h"

namespace gpumemshim::writer {
namespace {

// Random content, so that it does not compress away.
void RecordSome(int count, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (int i = 0; i < count; i++) {
    Event e{};
    e.kind = EventKind::kAlloc;
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
  EXPECT_TRUE(d.error.empty() || d.error == "sequence") << d.error;
  EXPECT_GT(d.rows.size(), 0u);
  // The last words are small, so they found room.
  EXPECT_TRUE(d.has_end);
  EXPECT_EQ(d.end.events(), d.rows.size());
  EXPECT_EQ(d.losses.unwritten_events(), 40'000 - d.rows.size());
  EXPECT_NE(d.losses.write_error().find("File too large"), std::string::npos) << d.losses.write_error();
}

TEST_F(WriterTest, DirectoryThatIsNotThere) {
  path() = directory_ + "/missing/run.gmtrace";
  StartBoth();
  RecordSome(100, 1);
  Summary summary = Stop(5000);
  EXPECT_FALSE(summary.opened);
  EXPECT_EQ(summary.unwritten_events, 100u);
  EXPECT_EQ(summary.events, 0u);
  EXPECT_NE(std::string(summary.error).find("No such file"), std::string::npos) << summary.error;
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

}  // namespace
}  // namespace gpumemshim::writer
