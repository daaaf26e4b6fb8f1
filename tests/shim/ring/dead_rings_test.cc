// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/ring/dead_rings.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "ring_fixture.h"
#include "shim/ring/state.h"

namespace gpumemshim::ring {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kEventsInAChunk = kChunkBytes / (sizeof(RecordHeader) + kLeastEventBytes);

class DeadRingsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(mkdtemp(folder_), nullptr);
    rings_ = std::string(folder_) + "/rings";
    trace_ = std::string(folder_) + "/run.gmtrace";
    ASSERT_EQ(mkdir(rings_.c_str(), 0700), 0);
  }
  void TearDown() override { fs::remove_all(folder_); }

  // A process that starts a ring and does `work`, then waits to be killed.
  pid_t StartVictim(const std::function<void()>& work) {
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
      Config config;
      config.directory = rings_.c_str();
      config.trace_path = trace_.c_str();
      if (!Start(config) || Path()[0] == '\0') _exit(1);
      work();
      if (write(ready[1], "x", 1) != 1) _exit(1);
      pause();
    }
    char byte;
    EXPECT_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return child;
  }
  static void Kill(pid_t child) {
    kill(child, SIGKILL);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
  }
  void KillAfter(const std::function<void()>& work) { Kill(StartVictim(work)); }

  static void RecordEvents(uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
      Event event{};
      event.kind = EventKind::kAlloc;
      event.address = i;
      if (!Record(event)) _exit(1);
    }
  }
  // As the writer does: all there is goes to the packet of this number, which is whole if `whole`.
  static void WriteAll(uint64_t sequence, bool whole) {
    Reader reader;
    if (!reader.Attach()) _exit(1);
    reader.BeginPass(true);
    EventView view;
    while (reader.NextEvent(&view)) {
    }
    reader.MarkPending(sequence);
    if (whole) MarkWritten(sequence);
  }
  void MakeTrace() const {
    close(open(trace_.c_str(), O_CREAT | O_WRONLY, 0600));
    NameTrace(trace_.c_str());
  }

  std::vector<std::string> Rings() const { return Names(rings_); }
  static std::vector<std::string> Names(const std::string& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.is_regular_file() || entry.is_symlink()) names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  std::string Put(const std::string& name, int64_t seconds_old) const {
    std::string path = rings_ + "/" + name;
    close(open(path.c_str(), O_CREAT | O_WRONLY, 0600));
    SetAge(path, seconds_old);
    return path;
  }
  static void SetDead(const std::string& ring, int64_t seconds) {
    const int fd = open(ring.c_str(), O_WRONLY);
    const auto since = static_cast<uint64_t>(time(nullptr) - seconds);
    EXPECT_EQ(pwrite(fd, &since, sizeof(since), offsetof(RingHeader, dead_since_s)), 8);
    close(fd);
  }
  static void SetAge(const std::string& path, int64_t seconds) {
    const timespec then = {time(nullptr) - seconds, 0};
    const timespec times[2] = {then, then};
    EXPECT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  }
  uint32_t Clear() const { return ClearDeadRings(rings_.c_str()); }
  static RingHeader HeaderOf(const std::string& path) {
    RingHeader header = {};
    const int fd = open(path.c_str(), O_RDONLY);
    EXPECT_EQ(pread(fd, &header, sizeof(header), 0), static_cast<ssize_t>(sizeof(header))) << path;
    close(fd);
    return header;
  }

  char folder_[32] = "/tmp/dead_rings.XXXXXX";
  std::string rings_, trace_;
};

TEST_F(DeadRingsTest, WhatTheTraceLacksIsPutBesideIt) {
  KillAfter([this] {
    MakeTrace();
    RecordEvents(4 * kEventsInAChunk);
  });
  EXPECT_EQ(Clear(), 1u);
  EXPECT_TRUE(Rings().empty());
  const RingHeader header = HeaderOf(trace_ + ".ring");
  EXPECT_EQ(header.magic, kMagic);
  EXPECT_EQ(header.moved, 1u);
  EXPECT_EQ(header.chunk_count, 4u);  // and none that is empty
  struct stat file;
  ASSERT_EQ(stat((trace_ + ".ring").c_str(), &file), 0);
  EXPECT_EQ(static_cast<uint64_t>(file.st_size), header.size_bytes);
  EXPECT_LT(file.st_size, 5 * kChunkBytes);
  EXPECT_EQ(file.st_mode & 07777, 0600u);
}

TEST_F(DeadRingsTest, WhereNothingLacksTheCopySaysSo) {
  KillAfter([this] {
    MakeTrace();
    RecordEvents(4 * kEventsInAChunk);
    WriteAll(7, true);
  });
  EXPECT_EQ(Clear(), 1u);
  EXPECT_EQ(HeaderOf(trace_ + ".ring").chunk_count, 0u);
  EXPECT_EQ(fs::file_size(trace_ + ".ring"), kPageBytes);
}

TEST_F(DeadRingsTest, APacketThatIsNotWholeCountsForNothing) {
  KillAfter([this] {
    MakeTrace();
    RecordEvents(4 * kEventsInAChunk);
    WriteAll(7, false);
  });
  EXPECT_EQ(Clear(), 1u);
  EXPECT_EQ(HeaderOf(trace_ + ".ring").chunk_count, 4u);
}

TEST_F(DeadRingsTest, LossesAreKept) {
  KillAfter([this] {
    MakeTrace();
    g_state.header->dropped_frees = 3;
  });
  EXPECT_EQ(Clear(), 1u);
  EXPECT_EQ(HeaderOf(trace_ + ".ring").dropped_frees, 3u);
}

TEST_F(DeadRingsTest, ARunningProcessKeepsItsRing) {
  const pid_t child = StartVictim([this] {
    MakeTrace();
    RecordEvents(10);
  });
  EXPECT_EQ(Clear(), 0u);
  EXPECT_EQ(Rings().size(), 1u);
  Kill(child);
  EXPECT_EQ(Clear(), 1u);
}

// Traces may lie where rings do, and a program may be called by a number.
TEST_F(DeadRingsTest, ACopyIsNoRing) {
  trace_ = rings_ + "/gpumemshim.42.777.gmtrace";
  KillAfter([this] {
    MakeTrace();
    RecordEvents(10);
  });
  EXPECT_EQ(Clear(), 1u);
  EXPECT_EQ(Clear(), 0u);
  EXPECT_EQ(Rings(), (std::vector<std::string>{"gpumemshim.42.777.gmtrace", "gpumemshim.42.777.gmtrace.ring"}));
}

// Killed before its first packet: the copy has the name that the trace would have had, or one like it.
TEST_F(DeadRingsTest, WithoutATraceItLiesWhereThatWasToBe) {
  std::vector<std::string> names;
  char id[48];
  for (int i = 0; i < 3; i++) {
    KillAfter([] { RecordEvents(10); });
    snprintf(id, sizeof(id), "run.gmtrace.%llx.ring",
             static_cast<unsigned long long>(HeaderOf(rings_ + "/" + Rings().at(0)).id));
    names.push_back(id);
    EXPECT_EQ(Clear(), 1u);
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(Names(folder_), names);
}

TEST_F(DeadRingsTest, ARingWithNothingInItJustGoes) {
  KillAfter([] {});
  EXPECT_EQ(Clear(), 1u);
  EXPECT_TRUE(Rings().empty());
  EXPECT_TRUE(Names(folder_).empty());
}

// The trace was replaced, or the path leads elsewhere in this container.
TEST_F(DeadRingsTest, NothingIsPutBesideAnotherFile) {
  KillAfter([this] {
    MakeTrace();
    RecordEvents(10);
  });
  fs::rename(trace_, trace_ + ".elsewhere");
  close(open(trace_.c_str(), O_CREAT | O_WRONLY, 0600));
  EXPECT_EQ(Clear(), 0u);
  EXPECT_EQ(Rings().size(), 1u);
  fs::rename(trace_ + ".elsewhere", trace_);
  EXPECT_EQ(Clear(), 1u);
}

TEST_F(DeadRingsTest, NoFileIsEverReplaced) {
  const std::string taken = trace_ + ".ring";
  close(open(taken.c_str(), O_CREAT | O_WRONLY, 0600));
  KillAfter([this] {
    MakeTrace();
    RecordEvents(10);
  });
  EXPECT_EQ(Clear(), 0u);
  EXPECT_EQ(Rings().size(), 1u);
  EXPECT_EQ(fs::file_size(taken), 0u);
}

// Killed between the copy's name and the ring's removal, or in the middle of the copy.
TEST_F(DeadRingsTest, WhatAnEarlierAttemptLeftIsNoHindrance) {
  KillAfter([this] {
    MakeTrace();
    RecordEvents(10);
  });
  const std::string ring = rings_ + "/" + Rings().at(0), again = folder_ + std::string("/kept");
  fs::copy_file(ring, again);
  ASSERT_EQ(Clear(), 1u);
  fs::copy_file(again, ring);
  char part[64];
  snprintf(part, sizeof(part), ".ring.%llx.part", static_cast<unsigned long long>(HeaderOf(ring).id));
  close(open((trace_ + part).c_str(), O_CREAT | O_WRONLY, 0600));
  EXPECT_EQ(Clear(), 1u);
  fs::remove(trace_ + ".ring");
  fs::copy_file(again, ring);
  EXPECT_EQ(Clear(), 1u);
  fs::remove(again);
  EXPECT_EQ(Names(folder_), (std::vector<std::string>{"run.gmtrace", "run.gmtrace.ring"}));
}

TEST_F(DeadRingsTest, OfManyAtOnceOneWins) {
  constexpr int kRings = 8, kCleaners = 6;
  for (int i = 0; i < kRings; i++) KillAfter([] { RecordEvents(200); });
  std::vector<pid_t> cleaners;
  for (int i = 0; i < kCleaners; i++) {
    const pid_t cleaner = fork();
    if (cleaner == 0) _exit(static_cast<int>(Clear()));
    cleaners.push_back(cleaner);
  }
  int cleared = 0;
  for (const pid_t cleaner : cleaners) {
    int status = 0;
    ASSERT_EQ(waitpid(cleaner, &status, 0), cleaner);
    cleared += WEXITSTATUS(status);
  }
  cleared += static_cast<int>(Clear());  // one that another was at is passed over
  EXPECT_EQ(cleared, kRings);
  EXPECT_TRUE(Rings().empty());
  EXPECT_EQ(Names(folder_).size(), static_cast<size_t>(kRings));
}

// Hostile: sizes that do not fit, a path that is none.
TEST_F(DeadRingsTest, ADamagedRingStays) {
  const std::function<void(RingHeader*)> damages[] = {
      [](RingHeader* h) { h->chunk_count = UINT32_MAX; },        [](RingHeader* h) { h->chunks_offset = UINT64_MAX; },
      [](RingHeader* h) { h->descriptors_offset = 1ull << 63; }, [](RingHeader* h) { h->trace_path_bytes = 0; },
      [](RingHeader* h) { h->size_bytes = 1ull << 40; },         [](RingHeader* h) { h->chunk_bytes = 1; },
      [](RingHeader* h) { h->trace_path_bytes = 4000; },         [](RingHeader* h) { h->trace_path[0] = 'x'; }};
  for (const auto& damage : damages) {
    KillAfter([&] {
      MakeTrace();
      RecordEvents(10);
      damage(g_state.header);
    });
    EXPECT_EQ(Clear(), 0u);
    ASSERT_EQ(Rings().size(), 1u);
    fs::remove(rings_ + "/" + Rings().at(0));
    EXPECT_EQ(Names(folder_), std::vector<std::string>{"run.gmtrace"});
  }
}

TEST_F(DeadRingsTest, OldOnesGoAllTheSame) {
  KillAfter([this] {
    MakeTrace();
    RecordEvents(10);
  });
  fs::remove(trace_);
  EXPECT_EQ(Clear(), 0u);
  const std::string ring = rings_ + "/" + Rings().at(0);
  EXPECT_EQ(Clear(), 0u) << "its time has just begun";
  SetDead(ring, kKeepWithoutTraceSeconds + 60);
  EXPECT_EQ(Clear(), 1u);
  KillAfter([this] {
    MakeTrace();
    RecordEvents(10);
  });
  fs::rename(trace_, trace_ + ".elsewhere");
  close(open(trace_.c_str(), O_CREAT | O_WRONLY, 0600));
  const std::string other = rings_ + "/" + Rings().at(0);
  SetDead(other, kKeepWithoutTraceSeconds + 60);
  EXPECT_EQ(Clear(), 0u);
  SetDead(other, kKeepSeconds + 60);
  EXPECT_EQ(Clear(), 1u);
}

TEST_F(DeadRingsTest, OneThatIsBeingMadeIsLeftAlone) {
  const pid_t gone = fork();
  if (gone == 0) _exit(0);
  ASSERT_EQ(waitpid(gone, nullptr, 0), gone);
  const std::string name = "gpumemshim." + std::to_string(gone) + ".77.1f.ring";
  Put(name, 0);
  EXPECT_EQ(Clear(), 0u);
  Put(name, kUnfinishedSeconds + 60);
  const int holder = open((rings_ + "/" + name).c_str(), O_RDWR);
  ASSERT_EQ(flock(holder, LOCK_EX), 0);
  EXPECT_EQ(Clear(), 0u);
  close(holder);
  EXPECT_EQ(Clear(), 1u);
}

TEST_F(DeadRingsTest, NothingThatIsNotARing) {
  const std::string pid = "2147480000";
  for (const char* name : {".77", "..ring"}) Put("gpumemshim" + std::string(name), 10 * kKeepSeconds);
  Put("gpumemshim.x" + pid + ".77.ring", 10 * kKeepSeconds);
  Put("gpumemshim.99999999999999999999.77.ring", 10 * kKeepSeconds);
  Put("other." + pid + ".77.ring", 10 * kKeepSeconds);
  ASSERT_EQ(symlink("/etc/hostname", (rings_ + "/gpumemshim." + pid + ".78.ring").c_str()), 0);
  EXPECT_EQ(Clear(), 0u);
  EXPECT_EQ(Rings().size(), 6u);
}

TEST_F(DeadRingsTest, AFolderThatIsNotThereIsNoError) {
  errno = EBADMSG;
  EXPECT_EQ(ClearDeadRings("/no/such/folder"), 0u);
  EXPECT_EQ(errno, EBADMSG);
}

}  // namespace
}  // namespace gpumemshim::ring
