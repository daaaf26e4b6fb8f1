// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A ring that grows as it is used: how little it begins with, that a burst finds as much room as if all of it had been
// there from the start, and that no lack of room is ever more than a dropped event.

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "ring_fixture.h"
#include "shim/base/clock.h"
#include "shim/ring/mapping.h"
#include "shim/ring/state.h"

namespace gpumemshim::ring {
namespace {

constexpr uint64_t kEventsOfAChunk = kChunkBytes / (sizeof(RecordHeader) + kLeastEventBytes);
constexpr uint64_t kMebibyte = uint64_t{1} << 20;

uint64_t BlockBytes(const char* path) {
  struct stat file = {};
  EXPECT_EQ(stat(path, &file), 0) << path;
  return static_cast<uint64_t>(file.st_blocks) * 512;
}

// Until one is dropped.
uint64_t RecordUntilFull() {
  uint64_t count = 0;
  for (Event event{}; Record(event); event.time_ns = 0) count++;
  return count;
}

// Exit code of `body` in a process of its own.
int InProcess(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

uint64_t AddressSpaceBytes() {
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

class GrowthTest : public RingTest {};

TEST_F(GrowthTest, BeginsSmall) {
  StartRing();
  EXPECT_LE(BlockBytes(Path()), 896u << 10);
  EXPECT_EQ(GetStats().size_bytes, kDefaultSizeBytes);
  EXPECT_EQ(GetStats().present_bytes, 16u * kChunkBytes);
}

TEST_F(GrowthTest, ABurstFindsAsMuchRoomAsInAWholeRing) {
  uint64_t taken[2];
  for (const bool whole : {false, true}) {
    Config config = OwnConfig();
    if (whole) config.first_chunks = UINT32_MAX;
    ASSERT_TRUE(Start(config));
    taken[whole] = RecordUntilFull();
    EXPECT_EQ(GetStats().present_bytes, g_state.chunk_count * uint64_t{kChunkBytes});
    Stop(1000);
    Unlink();
  }
  EXPECT_EQ(taken[0], taken[1]);
}

TEST_F(GrowthTest, TheWriterGrowsItInTimeAndGivesItBack) {
  StartRing();
  std::vector<Event> events;
  const uint64_t first = GetStats().present_bytes;
  for (uint64_t i = 0; i < 14 * kEventsOfAChunk; i++) {
    Event event = MakeEvent(EventKind::kAlloc, 1);
    ASSERT_TRUE(Record(event));
  }
  EXPECT_EQ(GetStats().present_bytes, first) << "no hook may be made to wait for what the writer can do before";
  Maintain(MonotonicNs());
  EXPECT_EQ(GetStats().present_bytes, 2 * first);
  const uint64_t blocks = BlockBytes(Path());
  Drain(&events);
  constexpr uint64_t kInterval = 5'000'000'000;
  for (uint64_t i = 1; i <= 3; i++) Maintain(MonotonicNs() + i * kInterval);
  EXPECT_EQ(GetStats().present_bytes, first);
  EXPECT_LE(BlockBytes(Path()), blocks - first);
  EXPECT_GT(RecordUntilFull(), 400 * kEventsOfAChunk) << "it may grow again";
}

TEST_F(GrowthTest, EightThreadsLoseNothingThatFits) {
  StartRing();
  std::vector<std::thread> threads;
  constexpr uint64_t kEach = 50 * kEventsOfAChunk;
  for (uint64_t t = 0; t < 8; t++) {
    threads.emplace_back([t] {
      for (uint64_t i = 0; i < kEach; i++) {
        Event event = MakeEvent(EventKind::kAlloc, t << 32 | i);
        Record(event);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(StopAndDrain().size(), 8 * kEach);
  EXPECT_EQ(GetStats().dropped_allocs, 0u);
}

// A tmpfs of so many bytes in a mount namespace of its own, at /mnt; what goes wrong is the exit code.
int OnSmallMount(uint64_t bytes, const std::function<int()>& body) {
  return InProcess([&]() -> int {
    char options[64];
    snprintf(options, sizeof(options), "size=%llu", static_cast<unsigned long long>(bytes));
    if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", "/mnt", "tmpfs", 0, options) != 0)
      return 77;
    return body();
  });
}

#define SKIP_WITHOUT_MOUNTS(code) \
  if ((code) == 77) GTEST_SKIP() << "no right to make a mount namespace"

bool FillUp(const char* path) {
  const int fd = open(path, O_CREAT | O_WRONLY, 0600);
  static char zeros[4096];
  while (write(fd, zeros, sizeof(zeros)) > 0) {
  }
  return close(fd) == 0;
}

// Others take all there is after the ring began: events are dropped, nothing else happens.
TEST_F(GrowthTest, AFullFileSystemIsADroppedEvent) {
  const int code = OnSmallMount(64 * kMebibyte, [] {
    Config config;
    config.directory = "/mnt";
    if (!Start(config) || Path()[0] == '\0') return 1;
    const uint64_t before = BlockBytes(Path());
    if (!FillUp("/mnt/other")) return 2;
    const uint64_t taken = RecordUntilFull();
    if (taken < 10 * kEventsOfAChunk || taken > 17 * kEventsOfAChunk) return 3;
    if (GetStats().dropped_allocs != 1) return 4;
    if (BlockBytes(Path()) != before) return 5;
    if (unlink("/mnt/other") != 0) return 6;
    Maintain(MonotonicNs() + 2'000'000'000);
    return RecordUntilFull() > kEventsOfAChunk ? 0 : 7;
  });
  SKIP_WITHOUT_MOUNTS(code);
  EXPECT_EQ(code, 0);
}

// A container's /dev/shm: all rings together stay below a sixteenth, whoever comes later has anonymous memory.
TEST_F(GrowthTest, RingsTogetherLeaveTheMountToTheProgram) {
  const int code = OnSmallMount(64 * kMebibyte, [] {
    int in_files = 0, anonymous = 0;
    int hold[2];
    if (pipe(hold) != 0) return 1;
    std::vector<pid_t> children;
    for (int i = 0; i < 32; i++) {
      int ready[2];
      if (pipe(ready) != 0) return 2;
      const pid_t child = fork();
      if (child == 0) {
        close(hold[1]);
        Config config;
        config.directory = "/mnt";
        const bool started = Start(config);
        RecordUntilFull();
        for (uint64_t k = 1; k < 20; k++) {
          Maintain(MonotonicNs() + k * 2'000'000'000);
          RecordUntilFull();
        }
        char answer = started && Path()[0] != '\0' ? 'f' : started ? 'a' : 'x';
        if (write(ready[1], &answer, 1) != 1 || read(hold[0], &answer, 1) != 0) _exit(1);
        _exit(0);
      }
      children.push_back(child);
      char answer = 'x';
      if (read(ready[0], &answer, 1) != 1) return 3;
      in_files += answer == 'f';
      anonymous += answer == 'a';
      close(ready[0]), close(ready[1]);
    }
    struct stat unused;
    uint64_t bytes = 0;
    if (system("ls /mnt > /tmp/growth_test.names") != 0 || stat("/mnt", &unused) != 0) return 4;
    FILE* names = fopen("/tmp/growth_test.names", "r");
    char name[256];
    while (fscanf(names, "%255s", name) == 1) bytes += BlockBytes((std::string("/mnt/") + name).c_str());
    fclose(names);
    unlink("/tmp/growth_test.names");
    close(hold[1]);
    for (const pid_t child : children) waitpid(child, nullptr, 0);
    fprintf(stderr, "%d rings in files of %llu KiB together, %d anonymous\n", in_files,
            static_cast<unsigned long long>(bytes >> 10), anonymous);
    if (bytes > 4 * kMebibyte) return 5;
    return in_files >= 4 && in_files + anonymous == 32 ? 0 : 6;
  });
  SKIP_WITHOUT_MOUNTS(code);
  EXPECT_EQ(code, 0);
}

TEST_F(GrowthTest, BesideTheTraceWhereThereIsNoRoom) {
  const int code = OnSmallMount(2 * kMebibyte, [] {
    Config config;
    config.directory = "/mnt";
    char trace[] = "/dev/shm/growth_test.gmtrace";
    config.trace_path = trace;
    if (!Start(config)) return 1;
    const bool beside = std::string(Path()).rfind("/dev/shm/gpumemshim.", 0) == 0;
    Stop(1000);
    Unlink();
    return beside ? 0 : 2;
  });
  SKIP_WITHOUT_MOUNTS(code);
  EXPECT_EQ(code, 0);
}

// A limit on the size of files raises a signal in whoever passes it.
TEST_F(GrowthTest, StaysBelowALimitOnFiles) {
  EXPECT_EQ(InProcess([] {
              const rlimit limit = {kMebibyte, kMebibyte};
              setrlimit(RLIMIT_FSIZE, &limit);
              if (!Start(Config()) || Path()[0] == '\0') return 1;
              RecordUntilFull();
              Maintain(MonotonicNs());
              if (BlockBytes(Path()) > kMebibyte) return 2;
              Stop(1000);
              Unlink();
              return 0;
            }),
            0);
}

TEST_F(GrowthTest, TakesLessAddressSpaceWhereThereIsLittle) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the address sanitizer takes terabytes of address space for itself";
#endif
  EXPECT_EQ(InProcess([] {
              Config config;
              config.size_bytes = 512 * kMebibyte;
              const uint64_t most = AddressSpaceBytes() + 128 * kMebibyte;
              const rlimit limit = {most, most};
              setrlimit(RLIMIT_AS, &limit);
              if (!Start(config)) return 1;
              const uint64_t bytes = GetStats().size_bytes;
              Stop(1000);
              Unlink();
              return bytes >= kMinSizeBytes && bytes < 128 * kMebibyte ? 0 : 2;
            }),
            0);
}

// Where blocks cannot be had through the mapping, the writer thread alone makes it grow.
TEST_F(GrowthTest, OnAnOldKernelTheWriterGrowsIt) {
  StartRing();
  g_state.populates = false;
  const uint64_t first = GetStats().present_bytes;
  RecordUntilFull();
  EXPECT_EQ(GetStats().present_bytes, first);
  const uint64_t before = BlockBytes(Path());
  Maintain(MonotonicNs());
  EXPECT_EQ(GetStats().present_bytes, 2 * first);
  EXPECT_EQ(BlockBytes(Path()), before + first);
  EXPECT_GT(RecordUntilFull(), 10u * kEventsOfAChunk);
}

}  // namespace
}  // namespace gpumemshim::ring
